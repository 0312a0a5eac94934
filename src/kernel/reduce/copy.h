#pragma once
#include <cstddef>

namespace tally::kernel {

// Copies for a reader on another core, with stores that bypass this core's cache where the
// processor can, so that neither core fetches lines from the other's cache. The bytes are visible
// to a thread that sees a later store of this thread. `into` is aligned to 64 bytes and does not
// overlap `from`.
void copy_for_others(std::byte* into, const std::byte* from, std::size_t bytes);

}  // namespace tally::kernel
