#pragma once
#include <memory>
#include <vector>

#include "exchange/device/device_sum.h"

namespace tally::exchange {

// How tiered_sum() divides the ranks.
struct SumTiers {
  int group = 0;         // of this rank; any number from 0
  MakeDeviceSum inside;  // sums of the ranks of one group
  MakeDeviceSum across;  // sums of one rank of each group, its leader
};

// Sums in two levels: inside groups, such as the ranks that share a GPU, then across the leaders of
// the groups, then back to all ranks of a group. An array crosses between groups once. If there is
// one group, or if each rank has its own, this is `inside` or `across` alone. Called by all ranks
// of `world`; it and `device` must outlive the result. Errors name ranks of `world`.
Result<std::unique_ptr<DeviceSum>> tiered_sum(Communicator& world, Device& device,
                                              const std::vector<DeviceSum::Array>& arrays,
                                              const SumTiers& tiers, Deadline by);

}  // namespace tally::exchange
