#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace tally::bench::compress
