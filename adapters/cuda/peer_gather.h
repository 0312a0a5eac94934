#pragma once
#include "adapters/cuda/peer_memory.h"
#include "exchange/device/device_gather.h"

namespace tally::cuda {

// Hands encoded gradients over between ranks whose processes share one device: each rank reads the
// others' bytes where they lie. Each array has two places, which own() names in turn: ask again
// after finish(). Called by all ranks; `world` and `device` must outlive the result.
Result<std::unique_ptr<exchange::DeviceGather>> make_peer_gather(
    Communicator& world, exchange::Device& device, MemoryExport& between,
    const std::vector<std::size_t>& capacities, Deadline by);

}  // namespace tally::cuda
