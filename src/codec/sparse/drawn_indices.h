#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/counter_random.h"

namespace tally::codec {

// `entries` different indices below `count`, rising, by the key alone. entries <= count < 2^32.
// Each index is among them with probability entries / count, but for 2^-32 of it: the indices, as a
// ring, are cut into `entries` arcs that differ by at most one in length, at an offset by chance,
// and one of each arc is drawn.
std::vector<std::uint32_t> drawn_indices(kernel::RandomKey key, std::size_t count,
                                         std::size_t entries);

}  // namespace tally::codec
