#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/counter_random.h"
#include "kernel/level.h"

namespace tally::kernel {

// One byte for each value, and for each `block` values (the last one may have fewer) a float32
// scale, little-endian. A value is what its byte stands for, times the scale.
//   scale = max|x| / top; at least the smallest normal number, so that its reciprocal is finite,
//   and at most what times top is finite. 0 for a block of zeros. NaN, with bytes of 0, for a block
//   that has a value which is not finite. byte  = x * (1 / scale), both rounded to float32, then to
//   the nearest that a byte stands for, to even between two.
// No error is over half a step of what bytes stand for, times the scale, and float32's rounding of
// these operations.
struct ScaledBytes {
  // `scales` has a float32 for each block, `codes` a byte for each value. Nothing overlaps.
  void (*encode)(const float* values, std::size_t count, std::size_t block, std::byte* scales,
                 std::byte* codes);
  // False if one of the scales or bytes is none that encode() makes.
  bool (*valid)(const std::byte* scales, const std::byte* codes, std::size_t count,
                std::size_t block);
  // out[i] = value i; out[i] = out[i] + weight * value i. Of what is valid.
  void (*decode)(const std::byte* scales, const std::byte* codes, std::size_t count,
                 std::size_t block, float* out);
  void (*decode_add)(const std::byte* scales, const std::byte* codes, std::size_t count,
                     std::size_t block, float weight, float* sum);
};

// Powers of two: for each value a byte of float32's exponent, and a bit that is 1 below zero, first
// value in the lowest bit; the last byte of these is filled up with zeros. Exponent 0 is zero or,
// with the bit, NaN; 255 is infinite. A value becomes one of the two powers around it (0 and the
// smallest normal number for subnormal ones), at random so that the mean is the value; but above
// 2^127 always 2^127, since there is no higher one.
struct NaturalBytes {
  // Value i takes number i of the sequence. Nothing overlaps.
  void (*encode)(const float* values, std::size_t count, RandomKey key, std::byte* exponents,
                 std::byte* signs);
  void (*decode)(const std::byte* exponents, const std::byte* signs, std::size_t count, float* out);
  void (*decode_add)(const std::byte* exponents, const std::byte* signs, std::size_t count,
                     float weight, float* sum);
};

// The loops of codecs that make each value smaller. Bytes may lie at any address; floats lie at
// theirs. Every level gives the same bits as the reference, except for sign and payload where
// decode_add() has a NaN. Rounding is the thread's, to nearest; nothing is fused.
struct QuantizeKernels {
  // sum[i] = sum[i] + weight * value i, of little-endian values.
  void (*add_float32)(const std::byte* values, std::size_t count, float weight, float* sum);
  void (*add_float16)(const std::byte* values, std::size_t count, float weight, float* sum);
  void (*add_bfloat16)(const std::byte* values, std::size_t count, float weight, float* sum);

  ScaledBytes int8;  // -127 to 127
  ScaledBytes e4m3;  // sign, 4 bits of exponent, 3 of mantissa: up to 448
  ScaledBytes e5m2;  // up to 57344; its infinities are not used
  NaturalBytes natural;
};

// Compiled from quantize_loops.inc.
struct QuantizeLevels {
  static const QuantizeKernels baseline, avx2, avx512;
};

// The loops of this processor's best level, and of a level from available_levels().
inline const QuantizeKernels& quantize_kernels() { return best_table<QuantizeLevels>(); }
inline const QuantizeKernels& quantize_kernels(Level level) {
  return table_of<QuantizeLevels>(level);
}
// Plain loops for tests to compare with.
const QuantizeKernels& quantize_reference();

}  // namespace tally::kernel
