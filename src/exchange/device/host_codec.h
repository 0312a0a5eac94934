#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "codec/codec.h"
#include "exchange/device/device_codec.h"
#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::exchange {

// The codec of host_device(): one of src/codec, behind the interface of devices. Arguments and
// errors are those of Device::make_codec().
Result<std::unique_ptr<DeviceCodec>> host_codec(const plan::CodecSpec& spec, std::size_t most,
                                                const codec::Shape& shape, std::uint32_t* damaged);

}  // namespace tally::exchange
