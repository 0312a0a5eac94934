#pragma once
#include <string>

#include "plan/plan.h"

namespace tally::exchange {

// The plan and the options of a job, as far as the exchange of its devices depends on them.
struct DeviceWish {
  const plan::Plan& plan;
  const plan::CodecSpec& codec;  // in use: codec_in_use()
  int workers = 1;
  bool discards_nonfinite = false;  // loss scaling
};

// Whether DeviceExchange can do it. Otherwise the gradients of devices go through host memory, and
// `reason` says why: "codec=qsgd:4 has no GPU kernels".
struct DeviceFit {
  bool fits = true;
  std::string reason = {};
};
DeviceFit device_fit(const DeviceWish& wish);

// Empty if Device::make_codec() makes the codec, otherwise the reason why it does not.
std::string why_no_device_codec(const plan::CodecSpec& spec);

}  // namespace tally::exchange
