#pragma once
#include "adapters/cuda/cuda_device.h"
#include "exchange/device/device_gather.h"
#include "exchange/device/device_sum.h"

// Ranks that share one GPU: their processes open each other's memory (CUDA IPC), and no bytes leave
// the GPU. Ranks may also be threads of one process. Both functions are called by all ranks;
// `world` and `device` must outlive the result. kExhausted on all ranks if the GPU has not enough
// memory for one of them.
namespace tally::cuda {

Result<std::unique_ptr<exchange::DeviceSum>> ipc_sum(
    Communicator& world, CudaDevice& device, const std::vector<exchange::DeviceSum::Array>& arrays,
    Deadline by);

// DeviceGather::own() changes with each finish().
Result<std::unique_ptr<exchange::DeviceGather>> ipc_gather(
    Communicator& world, CudaDevice& device, const std::vector<std::size_t>& capacities,
    Deadline by);

}  // namespace tally::cuda
