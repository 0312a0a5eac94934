#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "codec/lowrank/powersgd.h"
#include "exchange/device/device_low_rank.h"
#include "tally/error.h"

namespace tally::cuda {

// PowerSGD on the current CUDA device, with working arrays of a few megabytes beside the residual.
// It works on `stream`, the variable of the CudaDevice, which may change between calls and must
// outlive the result. kExhausted if the device has no memory for the residual.
Result<std::unique_ptr<exchange::DeviceLowRank>> make_device_low_rank(
    const codec::PowerSgd::Options& options, bool feedback, const cudaStream_t& stream);

}  // namespace tally::cuda
