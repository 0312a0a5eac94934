#pragma once
#include "adapters/cuda/peer_memory.h"
#include "exchange/device/device_sum.h"

namespace tally::cuda {

// Sums of ranks whose processes share one device, in memory that all of them address: rank r adds
// slice r of all ranks' arrays, in the order of the ranks, to one total that all ranks read. The
// ranks agree over `world`; no work on the device waits for another process, so that a rank that
// ends leaves the others' devices idle. Called by all ranks; `world` and `device` must outlive the
// result.
Result<std::unique_ptr<exchange::DeviceSum>> make_peer_sum(
    Communicator& world, exchange::Device& device, MemoryExport& between,
    const std::vector<exchange::DeviceSum::Array>& arrays, Deadline by);

}  // namespace tally::cuda
