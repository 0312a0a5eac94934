#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// Functions of threads that the kernels of all codecs share. Warps are whole: all 32 lanes take
// part in each function of a warp.
namespace tally::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
inline constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000U;
inline constexpr std::uint32_t kNotFiniteBits = 0x7FC00000U;  // codec::kNotFinite

// A warp works on a tile: kTileRows rows of 128 values, four per lane and row.
inline constexpr int kTileRows = 4;
inline constexpr std::size_t kRowValues = 128;
inline constexpr std::size_t kTileValues = kTileRows * kRowValues;

__device__ inline unsigned lane_index() { return threadIdx.x % 32; }
// The number of this warp in the grid.
__device__ inline std::size_t warp_index() {
  return std::size_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
}

__device__ inline bool is_finite(float value) {
  return (__float_as_uint(value) & kInfinityBits) != kInfinityBits;
}
__device__ inline float finite_or_zero(float value) { return is_finite(value) ? value : 0.0F; }
__device__ inline float not_finite() { return __uint_as_float(kNotFiniteBits); }

__device__ inline unsigned warp_max(unsigned value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
  for (int half = 16; half > 0; half /= 2) {
    const unsigned other = __shfl_xor_sync(kAllLanes, value, half);
    value = other > value ? other : value;
  }
  return value;
#endif
}
__device__ inline unsigned warp_sum(unsigned value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, value);
#else
  for (int half = 16; half > 0; half /= 2) value += __shfl_xor_sync(kAllLanes, value, half);
  return value;
#endif
}
// The sum of the lanes below this one.
__device__ inline unsigned warp_sum_before(unsigned value) {
  unsigned sum = value;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane_index() >= distance) sum += other;
  }
  return sum - value;
}

// Four values from `index` on, a multiple of 4; zeros behind the end. kVectors: the array is
// aligned to 16 bytes.
template <bool kVectors>
__device__ inline float4 load_four(const float* values, std::size_t index, std::size_t count) {
  if (kVectors && index + 4 <= count) return *reinterpret_cast<const float4*>(values + index);
  float4 four = {0, 0, 0, 0};
  if (index < count) four.x = values[index];
  if (index + 1 < count) four.y = values[index + 1];
  if (index + 2 < count) four.z = values[index + 2];
  if (index + 3 < count) four.w = values[index + 3];
  return four;
}
template <bool kVectors>
__device__ inline void store_four(float* values, std::size_t index, std::size_t count,
                                  const float4& four) {
  if (kVectors && index + 4 <= count) {
    *reinterpret_cast<float4*>(values + index) = four;
    return;
  }
  if (index < count) values[index] = four.x;
  if (index + 1 < count) values[index + 1] = four.y;
  if (index + 2 < count) values[index + 2] = four.z;
  if (index + 3 < count) values[index + 3] = four.w;
}

// A word whose address is a multiple of 4, at `at` of `size` bytes; zeros behind the end.
__device__ inline std::uint32_t load_word(const std::byte* bytes, std::size_t at,
                                          std::size_t size) {
  if (at + 4 <= size) return *reinterpret_cast<const std::uint32_t*>(bytes + at);
  std::uint32_t word = 0;
  for (unsigned i = 0; i < 4; ++i)
    if (at + i < size) word |= static_cast<std::uint32_t>(bytes[at + i]) << (8 * i);
  return word;
}
__device__ inline void store_word(std::byte* bytes, std::size_t at, std::size_t size,
                                  std::uint32_t word) {
  if (at + 4 <= size) {
    *reinterpret_cast<std::uint32_t*>(bytes + at) = word;
    return;
  }
  for (unsigned i = 0; i < 4; ++i)
    if (at + i < size) bytes[at + i] = static_cast<std::byte>(word >> (8 * i));
}

}  // namespace tally::cuda
