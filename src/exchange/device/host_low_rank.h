#pragma once
#include <memory>

#include "codec/lowrank/powersgd.h"
#include "exchange/device/device_low_rank.h"

namespace tally::exchange {

// DeviceLowRank over ordinary memory with codec::PowerSgd: for HostDevice, and the reference for
// devices.
std::unique_ptr<DeviceLowRank> host_low_rank(const codec::PowerSgd::Options& options,
                                             bool feedback);

}  // namespace tally::exchange
