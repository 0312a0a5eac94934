#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "adapters/cuda/cuda_device.h"
#include "codec/codec.h"
#include "exchange/device/device_codec.h"
#include "plan/codec_spec.h"

// The codecs that make_device_codec() chooses from, and what they share.
namespace tally::cuda {

// The settings and the device of a codec.
struct CodecUse {
  std::size_t most = 0;  // the longest run
  codec::Shape shape;
  std::uint32_t* damaged = nullptr;  // a word of the device: kernels set it to 1
  CudaDevice& device;
};

// none, fp16 and bf16; int8 and fp8; sign and onebit; topk and threshold.
Result<std::unique_ptr<exchange::DeviceCodec>> make_casts(const plan::CodecSpec& spec,
                                                          const CodecUse& use);
Result<std::unique_ptr<exchange::DeviceCodec>> make_scaled_bytes(const plan::CodecSpec& spec,
                                                                 const CodecUse& use);
Result<std::unique_ptr<exchange::DeviceCodec>> make_sign_bits(const plan::CodecSpec& spec,
                                                              const CodecUse& use);
Result<std::unique_ptr<exchange::DeviceCodec>> make_sparse(const plan::CodecSpec& spec,
                                                           const CodecUse& use);

template <typename T>
T* as(const exchange::DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.data);
}

inline bool is_aligned(const void* at, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

// kInvalid for a run that is longer than `most`, or an encoding that is not aligned to 16 bytes.
Result<void> check_run(std::size_t count, std::size_t most);
Result<void> check_alignment(const std::byte* encoding);

// The senders of one kernel.
inline constexpr int kSendersAtOnce = 32;
struct Senders {
  const std::byte* bytes[kSendersAtOnce];
  float weights[kSendersAtOnce];
  int count;
};

// How a kernel gives decoded values.
enum class Give {
  kValues,  // out = value
  kAdd,     // out += weight * value of each sender
  kMean,    // the same, from zero
};

// The part of all codecs of fixed size.
class FixedCodec : public exchange::DeviceCodec {
 public:
  bool is_fixed_size() const final { return true; }
  Result<void> encode(const float* gradient, std::size_t count, std::byte* out) final {
    return encode_run(gradient, nullptr, count, out);
  }
  Result<void> encode_with_feedback(const float* gradient, float* residual, std::size_t count,
                                    std::byte* out) final {
    return encode_run(gradient, residual, count, out);
  }
  Result<std::size_t> encoded_bytes() final { return encoded_; }

 protected:
  explicit FixedCodec(const CodecUse& use) : use_(use) {}

  CudaDevice& device() const { return use_.device; }
  std::uint32_t* damaged() const { return use_.damaged; }

  // `residual` may be null; count > 0.
  virtual Result<void> enqueue_encode(const float* gradient, float* residual, std::size_t count,
                                      std::byte* out) = 0;
  // At least one sender; count > 0.
  virtual Result<void> enqueue_decode(Give give, const Senders& senders, float* out,
                                      std::size_t count) = 0;

 private:
  Result<void> encode_run(const float* gradient, float* residual, std::size_t count,
                          std::byte* out);
  Result<void> read(Into into, std::span<const exchange::DeviceEncoded> senders, float* out,
                    std::size_t count) final;

  const CodecUse use_;
  std::size_t encoded_ = 0;
};

// Makes a codec whose constructor takes `arguments`.
template <typename Made, typename... Arguments>
std::unique_ptr<exchange::DeviceCodec> made(const Arguments&... arguments) {
  return std::make_unique<Made>(arguments...);
}

// Calls call.operator()<Give>() with the constant for `give`.
template <typename Call>
Result<void> with_give(Give give, Call call) {
  switch (give) {
    case Give::kValues:
      return call.template operator()<Give::kValues>();
    case Give::kAdd:
      return call.template operator()<Give::kAdd>();
    case Give::kMean:
      return call.template operator()<Give::kMean>();
  }
  return {};
}
// Calls call.operator()<bool>().
template <typename Call>
Result<void> with_flag(bool flag, Call call) {
  return flag ? call.template operator()<true>() : call.template operator()<false>();
}

}  // namespace tally::cuda
