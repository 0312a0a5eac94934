#pragma once
#include <cuda_runtime.h>

#include <type_traits>

namespace tally::cuda {

// Starts a kernel. An error also stays for cudaGetLastError(). This is a call and no <<<...>>>, so
// that every C++ compiler compiles the kernels for the emulation.
template <typename... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                          cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  void* pointers[] = {&arguments...};
  return cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), pointers, 0, stream);
}

}  // namespace tally::cuda
