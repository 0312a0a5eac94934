#pragma once
#include <memory>

#include "adapters/cuda/cuda_device.h"
#include "codec/lowrank/powersgd.h"
#include "exchange/device/device_low_rank.h"
#include "tally/error.h"

namespace tally::cuda {

// CudaDevice::make_low_rank(), with working arrays of a few megabytes beside the residual.
Result<std::unique_ptr<exchange::DeviceLowRank>> make_device_low_rank(
    const codec::PowerSgd::Options& options, bool feedback, CudaDevice& device);

}  // namespace tally::cuda
