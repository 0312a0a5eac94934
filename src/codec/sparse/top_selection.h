#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::codec {

// The number of entries for a density: at least one, unless there are no values.
std::size_t entries_of(double density, std::size_t count);

enum class Top : std::uint8_t {
  kExact,   // `wanted`; of equal magnitudes those with the lower indices
  kAround,  // where that saves time: all magnitudes above some threshold, if those are 0.8 to 1.3
            // times `wanted`
};

// Ascending indices of the largest magnitudes. Zeros are never selected, so there may be fewer; NaN
// and infinities always are, so there may be more. The same on every machine.
std::vector<std::uint32_t> select_top(std::span<const float> values, std::size_t wanted, Top top);

// Marks the values whose magnitude has at least the bits `least` (kernel/sparse/residual.h), one
// bit each, from the lowest bit on.
struct Marks {
  std::vector<std::uint64_t> words;
  std::size_t count = 0;  // of those that are marked
};
Marks mark_above(std::span<const float> values, std::uint32_t least);
// The ascending indices of the marked values.
std::vector<std::uint32_t> marked_indices(const Marks& marks);

}  // namespace tally::codec
