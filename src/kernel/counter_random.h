#pragma once
#include <cstdint>

namespace tally::kernel {

// Identifies a sequence of random numbers.
struct RandomKey {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

// Mixes 32 bits with the constants of C. Wellons' lowbias32: every input bit changes about half of
// the output bits.
inline std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// Number `index` of the sequence: 32 uniform bits by key and index alone, so that numbers can be
// computed in any order and in parallel.
inline std::uint32_t random_bits(RandomKey key, std::uint32_t index) {
  return mixed(mixed(index + key.low) ^ key.high);
}

// The upper 24 bits as an exact number in [0, 1).
inline float unit_of(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24F; }

}  // namespace tally::kernel
