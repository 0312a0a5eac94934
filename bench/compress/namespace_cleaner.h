#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::bench::compress {

inline constexpr const char* kIp = "/usr/sbin/ip";

// A process that removes network namespaces when this one has ended in any way, SIGKILL included.
// It waits at a pipe whose other end only this process has open, in a session of its own, and
// ignores signals of the keyboard. Threads: one at a time.
class NamespaceCleaner final {
 public:
  static Result<std::unique_ptr<NamespaceCleaner>> start(
      const std::vector<std::string>& namespaces);
  // Has the namespaces removed, and waits for that up to 20 s.
  ~NamespaceCleaner();
  NamespaceCleaner(const NamespaceCleaner&) = delete;
  NamespaceCleaner& operator=(const NamespaceCleaner&) = delete;

 private:
  NamespaceCleaner(pid_t pid, Descriptor alive) : pid_(pid), alive_(std::move(alive)) {}

  const pid_t pid_;
  Descriptor alive_;
};

// Removes namespaces whose owners have ended and whose cleaners were killed; only names of
// namespace_name() are considered.
void remove_left_over(const std::string& log_file);

}  // namespace tally::bench::compress
