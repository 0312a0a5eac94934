#pragma once
#include <cuda_runtime_api.h>

// The emulated GPU in numbers, and the outcome of calls.
namespace tally::cuda::emulation {

// Few, because each block of a kernel whose blocks wait for each other has a thread.
inline constexpr int kMultiprocessors = 2;
inline constexpr int kMultiprocessorThreads = 512;  // that run at the same time
inline constexpr int kMostThreads = 512;            // of a block

// Keeps an error for cudaGetLastError() of the calling thread, and returns `status`.
cudaError_t outcome(cudaError_t status);

}  // namespace tally::cuda::emulation
