#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "adapters/cuda/cuda_device.h"
#include "codec/codec.h"
#include "exchange/device/device_codec.h"
#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::cuda {

// CudaDevice::make_codec(). Calls may come from any thread, one at a time.
Result<std::unique_ptr<exchange::DeviceCodec>> make_device_codec(const plan::CodecSpec& spec,
                                                                 std::size_t most,
                                                                 const codec::Shape& shape,
                                                                 std::uint32_t* damaged,
                                                                 CudaDevice& device);

}  // namespace tally::cuda
