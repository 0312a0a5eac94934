#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "codec/codec.h"
#include "exchange/device/device_codec.h"
#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::cuda {

// exchange::Device::make_codec() on the current CUDA device. The codec works on `stream`, the
// variable of the CudaDevice, which may change between calls and must outlive the codec. Calls may
// come from any thread, one at a time.
Result<std::unique_ptr<exchange::DeviceCodec>> make_device_codec(const plan::CodecSpec& spec,
                                                                 std::size_t most,
                                                                 const codec::Shape& shape,
                                                                 const cudaStream_t& stream);

}  // namespace tally::cuda
