#pragma once
#include <cstdint>

namespace tally {

// The memory that this process may use: the least of the machine's memory, the limit of its
// container and its limit of address space (ulimit -v). Read once, at the first call.
std::uint64_t usable_memory_bytes();

}  // namespace tally
