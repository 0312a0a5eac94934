#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "exchange/device/device.h"

// The kernels behind CudaDevice. Each function launches one kernel on `stream` of the current
// device; cudaGetLastError() tells whether the launch succeeded. The contracts are those of
// exchange::Device. Every kernel gives the bits of the loops in src/kernel, except for NaN
// payloads: no operation is fused (-fmad=false), and division and square root are rounded
// correctly.
namespace tally::cuda {

void launch_gather(const exchange::DeviceBucket& bucket, const exchange::GradientChange& change,
                   cudaStream_t stream);
void launch_squares(const exchange::DeviceBucket& bucket, const exchange::GradientChange& change,
                    exchange::Squares* squares, cudaStream_t stream);
void launch_update(const exchange::DeviceBucket& bucket, exchange::UpdateLoop loop,
                   const exchange::GradientChange& change, cudaStream_t stream);
void launch_widen(const exchange::DeviceBucket& bucket, cudaStream_t stream);

// At most kSumSources arrays.
inline constexpr std::size_t kSumSources = 16;
void launch_sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                std::size_t count, cudaStream_t stream);

// Whether the current device can run the kernels: cudaErrorNoKernelImageForDevice if this program
// has no code for its architecture.
cudaError_t check_kernels();

}  // namespace tally::cuda
