#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel/counter_random.h"
#include "kernel/level.h"

namespace tally::kernel {

// One byte per value, and a little-endian float32 scale per block of `block` values (the last block
// may be shorter). A decoded value is the value of its byte times the scale.
//   scale = max|x| / top. It is at least the smallest normal number, so that its reciprocal is
//           finite, and at most the largest number whose product with top is finite. It is 0 for a
//           block of zeros, and NaN, with bytes of 0, for a block with a non-finite value.
//   byte  = x * (1 / scale), both rounded to float32, then rounded to the nearest value of a byte,
//           to even between two.
// The error is at most half a step between byte values, times the scale, plus float32's rounding of
// these operations.
struct ScaledBytes {
  // `scales` has a float32 per block, `codes` a byte per value. Nothing overlaps.
  void (*encode)(const float* values, std::size_t count, std::size_t block, std::byte* scales,
                 std::byte* codes);
  // False if a scale or a byte is none that encode() writes.
  bool (*valid)(const std::byte* scales, const std::byte* codes, std::size_t count,
                std::size_t block);
  // out[i] = value i or, with a weight, out[i] + *weight * value i. The bytes are valid.
  void (*decode)(const std::byte* scales, const std::byte* codes, std::size_t count,
                 std::size_t block, const float* weight, float* out);
};

// Powers of two: per value a byte with float32's exponent, and a sign bit, first value in the
// lowest bit; the last byte of sign bits is padded with zeros. Exponent 0 is zero or, with the sign
// bit, NaN; 255 is infinite. A value is rounded at random to one of the two powers around it (0 and
// the smallest normal number for subnormal values), so that its expected value is unchanged; values
// above 2^127 become 2^127, since there is no higher power.
struct NaturalBytes {
  // Value i uses number i of the random sequence. Nothing overlaps.
  void (*encode)(const float* values, std::size_t count, RandomKey key, std::byte* exponents,
                 std::byte* signs);
  // As above.
  void (*decode)(const std::byte* exponents, const std::byte* signs, std::size_t count,
                 const float* weight, float* out);
};

// The loops of codecs that quantize each value. Bytes may have any address, floats are aligned.
// Every level gives the same bits as the reference, except for sign and payload where an
// addition has a NaN. The thread's rounding mode is to nearest; nothing is fused.
struct QuantizeKernels {
  // sum[i] = sum[i] + weight * value i, for little-endian values.
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

// The loops of a level (see table_of()), and plain loops for tests to compare with.
inline const QuantizeKernels& quantize_kernels(std::optional<Level> level = {}) {
  return table_of<QuantizeLevels>(level);
}
const QuantizeKernels& quantize_reference();

}  // namespace tally::kernel
