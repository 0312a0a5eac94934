#pragma once
#include <sys/types.h>

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
  // or in other namespaces, nor where the system cannot watch processes.
  LocalProcess(const std::string& host, pid_t pid);

  bool known() const { return process_.open(); }
  // Whether it is known and has not ended. A stopped process lives.
  bool lives() const { return known() && !ended(); }
  // Whether it is known and has ended.
  bool ended() const;

 private:
  Descriptor process_;
};

}  // namespace tally::group
