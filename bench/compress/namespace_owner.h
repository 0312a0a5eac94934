#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::bench::compress {

// A process that makes network namespaces: its number in a pid namespace, and when it began in
// ticks of the kernel's clock since boot, so that who has the number later is not taken for it.
struct NamespaceOwner {
  std::uint64_t pid_namespace = 0;  // as the kernel numbers them
  pid_t pid = 0;
  std::uint64_t began_ticks = 0;

  friend bool operator==(const NamespaceOwner&, const NamespaceOwner&) = default;
};

// This process. kSystem where /proc does not tell.
Result<NamespaceOwner> this_owner();

// tally-bench-PIDNAMESPACE-PID-BEGAN-HOST; `host` is one letter.
std::string namespace_name(const NamespaceOwner& owner, char host);
// Who made the namespace of this name; nothing for names that namespace_name() does not give.
std::optional<NamespaceOwner> owner_of(std::string_view name);

// When the living process with this number began; nothing if there is none, or only one that waits
// for being reaped.
std::optional<std::uint64_t> began_ticks_of(pid_t pid);

// Whether what `owner` has made belongs to nobody any more, as seen from `own_pid_namespace`, where
// the process that now has its number began at `now_there`. Of other pid namespaces nothing can be
// known: no.
bool is_gone(const NamespaceOwner& owner, std::uint64_t own_pid_namespace,
             std::optional<std::uint64_t> now_there);

}  // namespace tally::bench::compress
