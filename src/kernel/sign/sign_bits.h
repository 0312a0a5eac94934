#pragma once
#include <cstddef>
#include <optional>

#include "kernel/level.h"

namespace tally::kernel {

// The sums of the negative values and of the others. Value i of each kSignChunk goes to float lane
// i % kSignLanes of its side; lanes are added by halves, and chunks in double in their order. A NaN
// is one of the others.
struct SideSums {
  double negative = 0;
  double other = 0;
};
inline constexpr std::size_t kSignLanes = 32;
inline constexpr std::size_t kSignChunk = 512;

// The values for the bits; `zero` takes precedence over the other two.
struct BitValues {
  float clear = 0;
  float set = 0;
  float zero = 0;
};

// The largest number of bitmaps for majority().
inline constexpr std::size_t kMaxVoters = 4096;

// Conversions between values and bitmaps: value i is bit i % 8 of byte i / 8, and bits behind the
// last value are clear. Nothing overlaps; pointers to bytes may have any address.
struct SignKernels {
  // Sets the bit where the value is less than zero, which -0 is not.
  SideSums (*sign_bits)(const float* values, std::size_t count, std::byte* bits);
  // Sets the bit where the value is 0 or -0.
  void (*zero_bits)(const float* values, std::size_t count, std::byte* bits);

  // out[i] = value of the bits i; sum[i] += it. `zeros` may be null: no value is zero.
  void (*spread)(const std::byte* signs, const std::byte* zeros, std::size_t count,
                 const BitValues& values, float* out);
  void (*add)(const std::byte* signs, const std::byte* zeros, std::size_t count,
              const BitValues& values, float* sum);

  // For each bit of `bytes` bytes: whether it is set in more than half of the bitmaps, and whether
  // in exactly half of them. 0 to kMaxVoters bitmaps.
  void (*majority)(const std::byte* const* bitmaps, std::size_t voters, std::size_t bytes,
                   std::byte* more, std::byte* half);
};

// Compiled from sign_bits_loops.inc.
struct SignLevels {
  static const SignKernels baseline, avx2, avx512;
};

// The loops of a level (see table_of()), and plain loops for tests to compare with.
inline const SignKernels& sign_kernels(std::optional<Level> level = {}) {
  return table_of<SignLevels>(level);
}
const SignKernels& sign_reference();

}  // namespace tally::kernel
