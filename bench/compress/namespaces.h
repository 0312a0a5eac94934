#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::bench::compress {

// A process that creates network namespaces: its number in a pid namespace, and its start time in
// clock ticks since boot, which distinguishes it from a later process with the same number.
struct NamespaceOwner {
  std::uint64_t pid_namespace = 0;  // inode number
  pid_t pid = 0;
  std::uint64_t began_ticks = 0;

  friend bool operator==(const NamespaceOwner&, const NamespaceOwner&) = default;
};

// Returns this process. kSystem if /proc has no information.
Result<NamespaceOwner> this_owner();

// tally-bench-PIDNAMESPACE-PID-BEGAN-HOST; `host` is one letter.
std::string namespace_name(const NamespaceOwner& owner, char host);
// Returns the owner of the namespace; nothing for names that namespace_name() does not make.
std::optional<NamespaceOwner> owner_of(std::string_view name);

// Returns the start time of the living process with this number; nothing if there is none, or only
// a zombie.
std::optional<std::uint64_t> began_ticks_of(pid_t pid);

// Whether `owner` has ended, as seen from `own_pid_namespace`, where the process that now has its
// number started at `now_there`. False for owners in other pid namespaces, about which nothing is
// known.
bool is_gone(const NamespaceOwner& owner, std::uint64_t own_pid_namespace,
             std::optional<std::uint64_t> now_there);

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
void remove_left_over();

}  // namespace tally::bench::compress
