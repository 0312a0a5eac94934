#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/level.h"

namespace tally::kernel {

// Magnitudes are compared by the bits of a float without its sign: in the order of numbers, with
// infinity above all numbers and NaN above infinity.
inline constexpr std::uint32_t kMagnitudeBits = 0x7FFFFFFFU;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000U;

// Momentum correction of deep gradient compression.
struct MomentumFactors {
  float momentum = 0;
  float scale = 1;  // what the gradient is multiplied with first
};

// Loops of senders that send some of their values and keep the rest. Arrays of `count` aligned
// floats do not overlap. Every level gives the same bits as residual_reference(), except for NaN
// payloads.
struct ResidualKernels {
  // Bit i % 64 of words[i / 64] tells whether the magnitude of value i is at least that of the bits
  // `least`; bits past `count` are 0. `least` is 1 (all but zeros) to kInfinityBits (nothing
  // finite). Returns the number of marked values.
  std::size_t (*mark)(const float* values, std::size_t count, std::uint32_t least,
                      std::uint64_t* words);
  // Sets infinite values and NaN to 0.
  void (*zero_nonfinite)(float* values, std::size_t count);
  // u = momentum * u + scale * gradient; v += u.
  void (*accumulate)(const MomentumFactors& factors, const float* gradient, float* u, float* v,
                     std::size_t count);
  // u = momentum * (u + scale * gradient); v += u + scale * gradient.
  void (*accumulate_nesterov)(const MomentumFactors& factors, const float* gradient, float* u,
                              float* v, std::size_t count);
  // Where `sent` is not zero, v becomes 0; with `masks` u becomes 0 as well. Values of u that are
  // not finite become 0.
  void (*clear_sent)(const float* sent, bool masks, float* u, float* v, std::size_t count);
};

// Compiled from residual_loops.inc.
struct ResidualLevels {
  static const ResidualKernels baseline, avx2, avx512;
};

// The loops of a level (see table_of()), and plain loops for tests to compare with.
inline const ResidualKernels& residual_kernels(std::optional<Level> level = {}) {
  return table_of<ResidualLevels>(level);
}
const ResidualKernels& residual_reference();

}  // namespace tally::kernel
