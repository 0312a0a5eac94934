#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "adapters/cuda/codec/codec_stream.h"
#include "adapters/cuda/launch_kernel.cuh"

// Launches of kernels in blocks of kCodecThreads threads.
namespace tally::cuda {

inline constexpr int kCodecThreads = 256;
inline constexpr int kWarps = kCodecThreads / 32;

// The blocks of threads for `warps` warps.
inline std::size_t blocks_for(std::size_t warps) { return (warps + kWarps - 1) / kWarps; }

template <typename... Parameters, typename... Arguments>
Result<void> launch(void (*kernel)(Parameters...), std::size_t blocks, cudaStream_t stream,
                    const Arguments&... arguments) {
  if (blocks == 0) return {};
  if (blocks > 0x7FFFFFFFU) return checked(cudaErrorInvalidConfiguration, "starting a kernel");
  return checked(launch_kernel(kernel, static_cast<unsigned>(blocks), kCodecThreads, stream,
                               static_cast<Parameters>(arguments)...),
                 "starting a kernel");
}

// The number of blocks of a kernel that a processor runs at the same time.
template <typename... Parameters>
Result<unsigned> resident_blocks(void (*kernel)(Parameters...)) {
  int each = 0;
  TALLY_TRY(checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kCodecThreads, 0),
                    "occupancy"));
  return static_cast<unsigned>(each);
}

// Runs a kernel whose blocks wait for each other: all of them run at the same time. An error if
// they do not fit on the device.
template <typename... Parameters, typename... Arguments>
Result<void> launch_together(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream,
                             const Arguments&... arguments) {
  return [&](Parameters... parameters) {
    void* pointers[] = {static_cast<void*>(&parameters)...};
    return checked(
        cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(kCodecThreads), pointers, 0, stream),
        "starting a kernel of waiting blocks");
  }(static_cast<Parameters>(arguments)...);
}

}  // namespace tally::cuda
