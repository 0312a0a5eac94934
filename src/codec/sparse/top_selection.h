#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::codec {

// How many of `count` values a density stands for: at least one, unless there are none.
std::size_t entries_of(double density, std::size_t count);

enum class Top : std::uint8_t {
  kExact,   // `wanted`; of equal magnitudes those with the lower indices
  kAround,  // where that saves time: all magnitudes above some threshold, if those are 0.8 to 1.3
            // times `wanted`
};

// Rising indices of the largest magnitudes. Zeros are never among them, so there may be fewer;
// not-a-number and infinities always are, so there may be more. The same on every machine.
std::vector<std::uint32_t> select_top(std::span<const float> values, std::size_t wanted, Top top);

// Which values have a magnitude of at least the bits `least` (kernel/sparse/residual.h): a bit for each,
// from the lowest on.
struct Marks {
  std::vector<std::uint64_t> words;
  std::size_t count = 0;  // of those that are marked
};
Marks mark_above(std::span<const float> values, std::uint32_t least);
// Their indices, rising.
std::vector<std::uint32_t> marked_indices(const Marks& marks);

}  // namespace tally::codec
