#pragma once
#include <memory>
#include <vector>

#include "adapters/cuda/cuda_device.h"
#include "exchange/device/device_gather.h"
#include "exchange/device/device_sum.h"
#include "tally/communicator.h"

namespace tally::nccl {

// Sums of ranks that have a GPU each, by NCCL: one all-reduce in place for each array, on a stream
// of its own, which begins when the device has done the work before start(). Called by all ranks of
// `world`; it and `device` must outlive the result. kInvalid if a rank has no NCCL, or if ranks
// share a GPU.
Result<std::unique_ptr<exchange::DeviceSum>> nccl_sum(
    Communicator& world, cuda::CudaDevice& device,
    const std::vector<exchange::DeviceSum::Array>& arrays, Deadline by);

// The same for encodings: an all-gather for each array where all ranks have about the same number
// of bytes, else a broadcast from each rank. The numbers travel through `world` while the devices
// compute.
Result<std::unique_ptr<exchange::DeviceGather>> nccl_gather(
    Communicator& world, cuda::CudaDevice& device, const std::vector<std::size_t>& capacities,
    Deadline by);

}  // namespace tally::nccl
