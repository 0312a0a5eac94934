#pragma once
#include <memory>

#include "exchange/device/device.h"

namespace tally::exchange {

// A device in ordinary memory, with the loops of src/kernel: the reference that the kernels of real
// devices are compared with, and a device for tests of what uses one. Its gradients are in ordinary
// memory, too.
std::unique_ptr<Device> host_device();

}  // namespace tally::exchange
