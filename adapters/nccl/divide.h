#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "tally/types.h"

namespace tally::nccl {

// data[i] /= divisor on `stream` of the current GPU, as kernel::Kernels::divide() does it.
cudaError_t launch_divide(DataType type, void* data, std::size_t count, int divisor,
                          cudaStream_t stream);

}  // namespace tally::nccl
