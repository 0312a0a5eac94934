#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/level.h"

namespace tally::kernel {

// Magnitudes are compared by the bits of a float without its sign: as numbers, with infinity above
// all numbers and not-a-number above infinity.
inline constexpr std::uint32_t kMagnitudeBits = 0x7FFFFFFFU;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000U;

// Momentum of a sender that keeps what it did not send (deep gradient compression).
struct MomentumFactors {
  float momentum = 0;
  float scale = 1;  // what the gradient is multiplied with first
};

// Loops of senders that send a part of their values and keep the rest. Arrays of `count` floats,
// aligned as a float is, do not overlap. Every level gives the same bits as residual_reference(),
// NaN payloads excepted.
struct ResidualKernels {
  // Bit i % 64 of words[i / 64] tells whether the magnitude of value i is at least that of `least`
  // bits; bits past `count` are 0. `least` is 1 (all but zeros) to kInfinityBits (nothing finite).
  // Returns how many.
  std::size_t (*mark)(const float* values, std::size_t count, std::uint32_t least,
                      std::uint64_t* words);
  // What is infinite or not a number becomes 0.
  void (*keep_finite)(float* values, std::size_t count);
  // u = momentum * u + scale * gradient; v += u.
  void (*gather)(const MomentumFactors& factors, const float* gradient, float* u, float* v,
                 std::size_t count);
  // u = momentum * (u + scale * gradient); v += u + scale * gradient.
  void (*gather_nesterov)(const MomentumFactors& factors, const float* gradient, float* u, float* v,
                          std::size_t count);
  // Where `sent` is not zero v becomes 0, and with `masks` u too. What is not finite in u becomes
  // 0.
  void (*settle)(const float* sent, bool masks, float* u, float* v, std::size_t count);
};

// Compiled from residual_loops.inc.
struct ResidualLevels {
  static const ResidualKernels baseline, avx2, avx512;
};

// The loops of this processor's best level, and of a level from available_levels().
inline const ResidualKernels& residual_kernels() { return best_table<ResidualLevels>(); }
inline const ResidualKernels& residual_kernels(Level level) {
  return table_of<ResidualLevels>(level);
}
// Plain loops for tests to compare with.
const ResidualKernels& residual_reference();

}  // namespace tally::kernel
