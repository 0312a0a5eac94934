#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/descriptor.h"

namespace tally::group {

// A process of this host, for members that tell who they are: as long as it is known to live, its
// silence does not mean that it is lost.
class LocalProcess final {
 public:
  // No known process.
  LocalProcess() = default;
  // `host` is the host_identity("") of the process. Nothing is known of a process on another host
  // or in other namespaces, nor where the system cannot watch processes. With `started` the process
  // must be the one with that started(): the system uses the number of an ended process again.
  LocalProcess(const std::string& host, pid_t pid, std::uint64_t started = 0);

  bool known() const { return process_.open(); }
  // When a known process started, in clock ticks since boot; 0: the system does not tell.
  std::uint64_t started() const { return started_; }
  // Whether it is known and has not ended. A stopped process lives.
  bool lives() const { return known() && !ended(); }
  // Whether it is known and has ended.
  bool ended() const;

 private:
  Descriptor process_;
  std::uint64_t started_ = 0;
};

}  // namespace tally::group
