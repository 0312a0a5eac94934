#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::bench::compress {

inline constexpr const char* kIp = "/usr/sbin/ip";

// A process that removes network namespaces when this one has ended in whatever way, SIGKILL
// included. It waits at a pipe whose other end only we have open, in a session of its own and deaf
// to what ends us by the keyboard. Threads: one at a time.
class NamespaceCleaner final {
 public:
  static Result<std::unique_ptr<NamespaceCleaner>> start(
      const std::vector<std::string>& namespaces);
  // Has it remove what is still there, and waits for that, 20 s at most.
  ~NamespaceCleaner();
  NamespaceCleaner(const NamespaceCleaner&) = delete;
  NamespaceCleaner& operator=(const NamespaceCleaner&) = delete;

 private:
  NamespaceCleaner(pid_t pid, Descriptor alive) : pid_(pid), alive_(std::move(alive)) {}

  const pid_t pid_;
  Descriptor alive_;
};

// Removes the namespaces of owners that have ended while neither they nor their cleaners could:
// those of our names only.
void remove_left_over(const std::string& log_file);

}  // namespace tally::bench::compress
