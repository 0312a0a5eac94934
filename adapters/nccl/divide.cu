#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "adapters/cuda/launch_kernel.cuh"
#include "adapters/nccl/divide.h"
#include "base/check.h"

namespace tally::nccl {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 1024;

template <typename T>
__device__ T divided(T value, int divisor) {
  return static_cast<T>(value / static_cast<T>(divisor));
}
template <>
__device__ __half divided(__half value, int divisor) {
  return __float2half_rn(__half2float(value) / static_cast<float>(divisor));
}
template <>
__device__ __nv_bfloat16 divided(__nv_bfloat16 value, int divisor) {
  return __float2bfloat16_rn(__bfloat162float(value) / static_cast<float>(divisor));
}
// The divisor need not fit the type.
template <>
__device__ std::int8_t divided(std::int8_t value, int divisor) {
  return static_cast<std::int8_t>(static_cast<int>(value) / divisor);
}
template <>
__device__ std::uint8_t divided(std::uint8_t value, int divisor) {
  return static_cast<std::uint8_t>(static_cast<int>(value) / divisor);
}

template <typename T>
__global__ void divide_all(T* data, std::size_t count, int divisor) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    data[i] = divided(data[i], divisor);
}

template <typename T>
cudaError_t launch(void* data, std::size_t count, int divisor, cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  return cuda::launch_kernel(divide_all<T>, blocks, kThreads, stream, static_cast<T*>(data), count,
                             divisor);
}

}  // namespace

cudaError_t launch_divide(DataType type, void* data, std::size_t count, int divisor,
                          cudaStream_t stream) {
  if (divisor == 1 || count == 0) return cudaSuccess;
  switch (type) {
    case DataType::kFloat32:
      return launch<float>(data, count, divisor, stream);
    case DataType::kFloat64:
      return launch<double>(data, count, divisor, stream);
    case DataType::kFloat16:
      return launch<__half>(data, count, divisor, stream);
    case DataType::kBFloat16:
      return launch<__nv_bfloat16>(data, count, divisor, stream);
    case DataType::kInt8:
      return launch<std::int8_t>(data, count, divisor, stream);
    case DataType::kUInt8:
      return launch<std::uint8_t>(data, count, divisor, stream);
    case DataType::kInt32:
      return launch<std::int32_t>(data, count, divisor, stream);
    case DataType::kInt64:
      return launch<std::int64_t>(data, count, divisor, stream);
  }
  TALLY_UNREACHABLE();
}

}  // namespace tally::nccl
