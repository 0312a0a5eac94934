#pragma once
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

// Numbers of 16 bits as IEEE 754 has them.

// NOLINTBEGIN(readability-identifier-naming): the names of CUDA.

struct __half {
  unsigned short bits;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }

// Exact.
inline float __half2float(__half value) {
  const std::uint32_t shifted = std::uint32_t{value.bits & 0x7FFFU} << 13;
  const bool is_finite = (value.bits & 0x7C00U) != 0x7C00U;
  // The exponents are biased by 127 and by 15. The product is right for subnormal numbers too.
  const std::uint32_t magnitude =
      is_finite ? std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted) * 0x1p112F)
                : shifted | 0x7F800000U;
  return std::bit_cast<float>(magnitude | std::uint32_t{value.bits & 0x8000U} << 16);
}

// Rounds to the nearest, ties to even. As on a GPU, a NaN loses its sign and its payload.
inline __half __float2half_rn(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {0x7FFF};
  std::uint32_t half = 0x7C00;
  if (magnitude < 0x38800000U) {
    // Below 2^-14. The last bit of 0.5 + x has the weight of a subnormal number's last bit.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
           std::bit_cast<std::uint32_t>(0.5F);
  } else if (magnitude < 0x47800000U) {
    // Below 2^16. What rounds beyond the largest number gets the bits of infinity.
    half = (magnitude + 0xFFFU + (magnitude >> 13 & 1U) - (112U << 23)) >> 13;
  }
  return {static_cast<unsigned short>(half | (bits >> 16 & 0x8000U))};
}

// NOLINTEND(readability-identifier-naming)
