#pragma once
#include <cuda_runtime_api.h>

#include <functional>

// Launches of kernels, for the templates of cuda_runtime.h. `kernel` is called once per thread.
namespace tally::cuda::emulation {

cudaError_t launch(std::function<void()> kernel, dim3 grid, dim3 block, cudaStream_t stream);
// All blocks run at the same time.
cudaError_t launch_together(std::function<void()> kernel, dim3 grid, dim3 block,
                            cudaStream_t stream);
// The blocks of `threads` threads that a multiprocessor runs at the same time.
cudaError_t resident_blocks_of(int* blocks, int threads);

}  // namespace tally::cuda::emulation
