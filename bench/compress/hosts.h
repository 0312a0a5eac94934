#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/compress/namespaces.h"
#include "process/temp_dir.h"
#include "tally/error.h"

namespace tally::bench::compress {

// Checks "100mbit", "1gbit", "2.5gbit", or "none" for an unlimited link. kInvalid for any other
// text.
Result<void> check_link(const std::string& text);

// Two hosts on this machine: network namespaces with their own host names, connected by a pair of
// virtual interfaces. Removed by the destructor, after an interrupt, and by a separate process when
// this one is killed; if that was killed too, by the next make(). Needs root. Threads: one at a
// time; a process has one object at a time.
class Hosts final {
 public:
  // Removes namespaces of dead processes, then creates new ones. kInvalid names what is missing:
  // root, or a tool and its package.
  static Result<std::unique_ptr<Hosts>> make();
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // Limits each direction from now on; `link` as for check_link().
  Result<void> shape(const std::string& link);

  static std::string address(int host);
  // Returns the command that runs `command` on that host.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  // A program that is called as PROGRAM ADDRESS COMMAND... and runs the command on that host, as
  // ssh would.
  std::string remote_shell() const { return folder_->path() + "/shell"; }
  // Returns the bytes that both hosts have sent so far, headers included.
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
