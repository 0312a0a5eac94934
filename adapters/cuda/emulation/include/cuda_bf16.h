#pragma once
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

// The upper half of a float.

// NOLINTBEGIN(readability-identifier-naming): the names of CUDA.

struct __nv_bfloat16 {
  unsigned short bits;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }

// Exact.
inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

// Rounds to the nearest, ties to even. As on a GPU, a NaN loses its sign and its payload.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FFF};
  return {static_cast<unsigned short>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}

// NOLINTEND(readability-identifier-naming)
