#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "adapters/cuda/cuda_device.h"
#include "adapters/cuda/launch_kernel.cuh"

// Launches of kernels in blocks of kCodecThreads threads.
namespace tally::cuda {

inline constexpr int kCodecThreads = 256;
inline constexpr int kWarps = kCodecThreads / 32;

// The blocks of threads for `warps` warps.
inline std::size_t blocks_for(std::size_t warps) { return (warps + kWarps - 1) / kWarps; }

template <typename... Parameters, typename... Arguments>
Result<void> launch(CudaDevice& device, void (*kernel)(Parameters...), std::size_t blocks,
                    const Arguments&... arguments) {
  if (blocks == 0) return {};
  return device.enqueue("running a codec", [&] {
    if (blocks > 0x7FFFFFFFU) return cudaErrorInvalidConfiguration;
    return launch_kernel(kernel, static_cast<unsigned>(blocks), kCodecThreads, device.stream(),
                         static_cast<Parameters>(arguments)...);
  });
}

// The number of blocks of a kernel that a multiprocessor runs at the same time.
template <typename... Parameters>
Result<unsigned> resident_blocks(CudaDevice& device, void (*kernel)(Parameters...)) {
  int each = 0;
  TALLY_TRY(device.enqueue("preparing a codec", [&] {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kCodecThreads, 0);
  }));
  return static_cast<unsigned>(each);
}

// Runs a kernel whose blocks wait for each other: all of them run at the same time. An error if
// they do not fit on the device.
template <typename... Parameters, typename... Arguments>
Result<void> launch_together(CudaDevice& device, void (*kernel)(Parameters...), unsigned blocks,
                             const Arguments&... arguments) {
  return [&](Parameters... parameters) {
    void* pointers[] = {static_cast<void*>(&parameters)...};
    return device.enqueue("running a codec", [&] {
      return cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(kCodecThreads), pointers, 0,
                                         device.stream());
    });
  }(static_cast<Parameters>(arguments)...);
}

}  // namespace tally::cuda
