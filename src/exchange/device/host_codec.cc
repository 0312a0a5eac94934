#include "exchange/device/host_codec.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/errors.h"
#include "exchange/device/device_fit.h"
#include "kernel/reduce/reduce.h"
#include "kernel/sparse/residual.h"

namespace tally::exchange {
namespace {

class HostCodec final : public DeviceCodec {
 public:
  HostCodec(std::unique_ptr<codec::Codec> codec, std::size_t most, std::uint32_t* damaged)
      : codec_(std::move(codec)), most_(most), damaged_(*damaged) {}

  bool is_fixed_size() const override { return codec_->traits().fixed_size; }
  std::size_t max_bytes(std::size_t count) const override { return codec_->max_bytes(count); }

  Result<void> encode(const float* gradient, std::size_t count, std::byte* out) override {
    if (count > most_) return invalid("a run of {} values, made for {}", count, most_);
    encoded_ = codec_->encode({gradient, count}, {}, {out, max_bytes(count)});
    return {};
  }
  Result<void> encode_with_feedback(const float* gradient, float* residual, std::size_t count,
                                    std::byte* out) override {
    kernel::kernels().combine(DataType::kFloat32, ReduceOp::kSum, residual, gradient, count);
    TALLY_TRY(encode(residual, count, out));
    const auto subtracted = codec_->decode_add({out, encoded_}, -1.0F, {residual, count});
    TALLY_CHECK(subtracted.has_value());
    kernel::residual_kernels().zero_nonfinite(residual, count);
    return {};
  }
  Result<std::size_t> encoded_bytes() override { return encoded_; }

 private:
  Result<void> read(Into into, std::span<const DeviceEncoded> senders, float* out,
                    std::size_t count) override {
    for (const DeviceEncoded& sender : senders)
      if (is_fixed_size() && sender.size != max_bytes(count))
        return corrupt("{} bytes for {} values, expected {}", sender.size, count, max_bytes(count));
    const std::span<float> values(out, count);
    if (into == Into::kMean) std::fill(values.begin(), values.end(), 0.0F);
    for (const DeviceEncoded& sender : senders) {
      const std::span<const std::byte> bytes(sender.bytes, sender.size);
      const auto read = into == Into::kValues ? codec_->decode(bytes, values)
                                              : codec_->decode_add(bytes, sender.weight, values);
      if (!read) damaged_ = 1;
    }
    return {};
  }

  const std::unique_ptr<codec::Codec> codec_;
  const std::size_t most_;
  std::size_t encoded_ = 0;
  std::uint32_t& damaged_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> host_codec(const plan::CodecSpec& spec, std::size_t most,
                                                const codec::Shape& shape, std::uint32_t* damaged) {
  if (const std::string why = why_no_device_codec(spec); !why.empty()) return invalid(why);
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<HostCodec>(codec::make_codec(spec, shape), most, damaged));
}

}  // namespace tally::exchange
