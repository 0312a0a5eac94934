#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/compress/namespace_cleaner.h"
#include "bench/compress/namespace_owner.h"
#include "process/temp_dir.h"
#include "tally/error.h"

namespace tally::bench::compress {

// "100mbit", "1gbit", "2.5gbit", or "none" for a link as fast as the machine is. kInvalid for
// anything else.
Result<void> check_link(const std::string& text);

// Two hosts with a cable between them on this machine: network namespaces with names of their own,
// joined by a pair of virtual interfaces. Removed with the object, after an interrupt, and by a
// process of their own when this one is killed; where that was killed too, by the next make() of
// anybody. Needs root. Threads: one at a time; a process has one object at a time.
class Hosts final {
 public:
  // Removes what dead processes have left, then makes our own. kInvalid says what is missing: root,
  // or a tool and its package.
  static Result<std::unique_ptr<Hosts>> make();
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // Each direction from now on; as check_link() takes it.
  Result<void> shape(const std::string& link);

  static std::string address(int host);
  // The command, to be run on that host.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  // A program that is called as PROGRAM ADDRESS COMMAND... and runs the command there, as ssh
  // would.
  std::string remote_shell() const { return folder_->path() + "/shell"; }
  // Bytes that have left both hosts over the cable so far, headers included.
  Result<std::uint64_t> sent_bytes() const;

 private:
  Hosts(std::unique_ptr<process::TempDir> folder, const NamespaceOwner& self);
  Result<void> build();

  const std::unique_ptr<process::TempDir> folder_;
  const std::array<std::string, 2> names_;
  std::unique_ptr<NamespaceCleaner> cleaner_;  // removes them
  bool is_shaped_ = false;
};

}  // namespace tally::bench::compress
