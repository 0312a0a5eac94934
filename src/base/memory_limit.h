#pragma once
#include <cstdint>

namespace tally {

// The memory that each of `processes` on this machine may use, with this one: the least of their
// shares of the machine's memory and of the limit of their container, and of the limit of address
// space (ulimit -v), which every process has for itself. The limits are read once, at the first
// call.
std::uint64_t usable_memory_bytes(int processes = 1);

}  // namespace tally
