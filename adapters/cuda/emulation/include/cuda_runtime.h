#pragma once
#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "adapters/cuda/emulation/block.h"
#include "adapters/cuda/emulation/launch.h"
#include "adapters/cuda/emulation/properties.h"

// The part of CUDA C++ that the kernels of Tally use, as ordinary C++: a kernel is a function that
// is called once per thread. The files are compiled without contraction of a * b + c and without
// the aliasing rule, as nvcc compiles them.

// NOLINTBEGIN(readability-identifier-naming): the names of CUDA.

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local  // a block runs on one thread of the operating system
#define __grid_constant__
#define __launch_bounds__(...)
// Empty, because standard headers use the name in __attribute__((__noinline__)).
#define __noinline__

// A hint for the compiler of a GPU.
#define __builtin_assume(condition) static_cast<void>(condition)

struct uint2 {
  alignas(8) unsigned x;
  unsigned y;
};
struct uint4 {
  alignas(16) unsigned x;
  unsigned y, z, w;
};
struct float4 {
  alignas(16) float x;
  float y, z, w;
};

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }

inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline double __longlong_as_double(long long a) { return std::bit_cast<double>(a); }

inline int __popc(unsigned a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __ffs(int a) { return a == 0 ? 0 : 1 + std::countr_zero(static_cast<unsigned>(a)); }
// The low word of high:low, shifted by shift % 32.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  return static_cast<unsigned>(both >> (shift % 32));
}

inline bool __isGlobal(const void* /*pointer*/) { return true; }

// Blocks of cooperative launches, and kernels of several streams, run at the same time.
inline unsigned atomicAdd(unsigned* to, unsigned value) {
  return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
inline unsigned atomicOr(unsigned* to, unsigned value) {
  return __atomic_fetch_or(to, value, __ATOMIC_RELAXED);
}

inline void __syncthreads() { tally::cuda::emulation::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
  (void)tally::cuda::emulation::with_lanes(
      {.kind = tally::cuda::emulation::LaneCall::Kind::kWait, .mask = mask});
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(
      tally::cuda::emulation::with_lanes({.kind = tally::cuda::emulation::LaneCall::Kind::kBallot,
                                          .mask = mask,
                                          .value = predicate != 0 ? 1U : 0U}));
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask ? 1 : 0;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return static_cast<unsigned>(tally::cuda::emulation::with_lanes(
      {.kind = tally::cuda::emulation::LaneCall::Kind::kAdd, .mask = mask, .value = value}));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return static_cast<unsigned>(tally::cuda::emulation::with_lanes(
      {.kind = tally::cuda::emulation::LaneCall::Kind::kMax, .mask = mask, .value = value}));
}

namespace tally::cuda::emulation {

// The value of another lane; `width` lanes in a row exchange values among themselves.
template <typename T>
T shuffled(LaneCall::Kind kind, unsigned mask, T value, unsigned argument, int width) {
  static_assert(std::is_arithmetic_v<T>);
  LaneCall call{.kind = kind, .mask = mask, .argument = argument, .width = width};
  std::memcpy(&call.value, &value, sizeof(T));
  const std::uint64_t result = with_lanes(call);
  std::memcpy(&value, &result, sizeof(T));
  return value;
}

// Calls the kernel with copies of the arguments that the pointers name.
template <typename... Parameters, std::size_t... kIndex>
std::function<void()> with_arguments(void (*kernel)(Parameters...), void** arguments,
                                     std::index_sequence<kIndex...>) {
  return [kernel, copies = std::tuple<Parameters...>(
                      *static_cast<std::remove_reference_t<Parameters>*>(arguments[kIndex])...)] {
    std::apply(kernel, copies);
  };
}

}  // namespace tally::cuda::emulation

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  using tally::cuda::emulation::LaneCall;
  return tally::cuda::emulation::shuffled(LaneCall::Kind::kFrom, mask, value,
                                          static_cast<unsigned>(lane), width);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  using tally::cuda::emulation::LaneCall;
  return tally::cuda::emulation::shuffled(LaneCall::Kind::kFromBelow, mask, value, distance, width);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  using tally::cuda::emulation::LaneCall;
  return tally::cuda::emulation::shuffled(LaneCall::Kind::kFromAbove, mask, value, distance, width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  using tally::cuda::emulation::LaneCall;
  return tally::cuda::emulation::shuffled(LaneCall::Kind::kFromXor, mask, value,
                                          static_cast<unsigned>(bits), width);
}

template <typename... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared_bytes*/ = 0, cudaStream_t stream = nullptr) {
  return tally::cuda::emulation::launch(
      tally::cuda::emulation::with_arguments(kernel, arguments,
                                             std::index_sequence_for<Parameters...>()),
      grid, block, stream);
}
template <typename... Parameters>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                        void** arguments, std::size_t /*shared_bytes*/ = 0,
                                        cudaStream_t stream = nullptr) {
  return tally::cuda::emulation::launch_together(
      tally::cuda::emulation::with_arguments(kernel, arguments,
                                             std::index_sequence_for<Parameters...>()),
      grid, block, stream);
}

template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(Parameters...)) {
  *attributes = {.maxThreadsPerBlock = tally::cuda::emulation::kMostThreads};
  return cudaSuccess;
}
template <typename... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*)(Parameters...),
                                                          int block_threads,
                                                          std::size_t /*shared_bytes*/) {
  return tally::cuda::emulation::resident_blocks_of(blocks, block_threads);
}

// NOLINTEND(readability-identifier-naming)
