#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/counter_random.h"

namespace tally::codec {

// Draws `entries` distinct ascending indices below `count`, by the key alone. entries <= count <
// 2^32. Each index is drawn with probability entries / count, except for a share of 2^-32: the ring
// of indices is cut at a random offset into `entries` arcs whose lengths differ by at most one, and
// one index of each arc is drawn.
std::vector<std::uint32_t> drawn_indices(kernel::RandomKey key, std::size_t count,
                                         std::size_t entries);

}  // namespace tally::codec
