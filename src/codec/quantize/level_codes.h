#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::codec {

// Packs signed levels as codes of 2, 4 or 8 bits in two's complement, the first level in the lowest
// bits; unused bits at the end are zero. `codes` has room for all levels. The most negative number
// of so many bits is no level.
void pack_levels(std::span<const std::int8_t> levels, int bits, std::byte* codes);
// False if a code is no level.
bool unpack_levels(const std::byte* codes, int bits, std::span<std::int8_t> levels);

// Packs levels of -1, 0 and 1, five to a byte: as base-3 digits (0 for 0, 1 for 1 and 2 for -1)
// with the weights 1, 3, 9, 27 and 81. Each of the five planes has `count` levels.
inline constexpr std::size_t kTritPlanes = 5;
void pack_trits(const std::int8_t* const* planes, std::size_t count, std::byte* codes);
// False if a byte is above 242.
bool unpack_trits(const std::byte* codes, std::size_t count, std::int8_t* const* planes);

}  // namespace tally::codec
