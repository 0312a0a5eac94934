#pragma once
#include <string>
#include <vector>

#include "tally/communicator.h"
#include "tally/torch.h"

namespace tally::adapter {

// How the ranks of a job hand gradients over between their GPUs.
enum class DeviceWay : std::uint8_t {
  kHost,    // through host memory
  kShared,  // all have one GPU, and read each other's memory there
  kNccl,    // each has a GPU of its own
  kTiered,  // kShared among the ranks of each GPU, kNccl among one rank of each
};

// The GPUs of a job.
struct DevicePlaces {
  std::vector<std::string> gpus;  // by rank: host and hardware id; equal for one GPU
  bool has_nccl = true;           // whether the builds of all ranks support it
};

// The way of sums, the same on all ranks. kInvalid if the ranks cannot have the one that is wanted.
Result<DeviceWay> way_of_sums(DeviceSums wanted, const DevicePlaces& places);
// The way of encoded gradients and new values, which have no tiers.
Result<DeviceWay> way_of_gathers(DeviceSums wanted, const DevicePlaces& places);
// Why the way is slower than it could be; empty if it is not.
std::string why_slow(DeviceSums wanted, DeviceWay way, const DevicePlaces& places);

// The lowest rank with the same GPU.
int gpu_group(const DevicePlaces& places, Rank rank);

}  // namespace tally::adapter
