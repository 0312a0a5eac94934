#include "adapters/cuda/codec/device_codec.h"

#include "adapters/cuda/codec/codec_families.h"
#include "base/errors.h"

namespace tally::cuda {
namespace {

Result<void> check_spec(const plan::CodecSpec& spec) {
  if (spec.stage != plan::EntropyStage::kNone)
    return invalid("codec={}: entropy stages need the CPU; take the codec without one",
                   plan::to_string(spec));
  if (spec.vote)
    return invalid("codec={}: votes need the CPU; take sign without vote", plan::to_string(spec));
  return {};
}

}  // namespace

Result<std::unique_ptr<exchange::DeviceCodec>> make_device_codec(const plan::CodecSpec& spec,
                                                                 std::size_t most,
                                                                 const codec::Shape& shape,
                                                                 std::uint32_t* damaged,
                                                                 CudaDevice& device) {
  TALLY_TRY(check_spec(spec));
  const CodecUse use{.most = most, .shape = shape, .damaged = damaged, .device = device};
  switch (spec.kind) {
    case plan::Codec::kNone:
    case plan::Codec::kFp16:
    case plan::Codec::kBf16:
      return make_casts(spec, use);
    case plan::Codec::kInt8:
    case plan::Codec::kFp8:
      return make_scaled_bytes(spec, use);
    case plan::Codec::kOnebit:
    case plan::Codec::kSign:
      return make_sign_bits(spec, use);
    case plan::Codec::kTopk:
    case plan::Codec::kThreshold:
      return make_sparse(spec, use);
    default:
      return invalid(
          "codec={}: GPUs have none, fp16, bf16, int8, fp8, onebit, sign, topk and threshold",
          plan::to_string(spec));
  }
}

Result<void> check_run(std::size_t count, std::size_t most) {
  if (count <= most) return {};
  return invalid("a run of {} values for a codec that was made for {}", count, most);
}

Result<void> check_alignment(const std::byte* encoding) {
  if (is_aligned(encoding, 16)) return {};
  return invalid("an encoding that is not aligned to 16 bytes");
}

Result<void> FixedCodec::encode_run(const float* gradient, float* residual, std::size_t count,
                                    std::byte* out) {
  TALLY_TRY(check_run(count, use_.most));
  TALLY_TRY(check_alignment(out));
  encoded_ = max_bytes(count);
  if (count == 0) return {};
  return enqueue_encode(gradient, residual, count, out);
}

Result<void> FixedCodec::read(Into into, std::span<const exchange::DeviceEncoded> senders,
                              float* out, std::size_t count) {
  for (const exchange::DeviceEncoded& sender : senders) {
    if (sender.size != max_bytes(count))
      return corrupt("{} bytes for {} values, expected {}", sender.size, count, max_bytes(count));
    TALLY_TRY(check_alignment(sender.bytes));
  }
  if (count == 0) return {};
  if (into == Into::kMean && senders.empty()) return device().clear(out, count * sizeof(float));
  Give give = into == Into::kValues ? Give::kValues : into == Into::kSum ? Give::kAdd : Give::kMean;
  while (!senders.empty()) {
    Senders some = {};
    for (; some.count < kSendersAtOnce && !senders.empty(); senders = senders.subspan(1)) {
      some.bytes[some.count] = senders.front().bytes;
      some.weights[some.count] = senders.front().weight;
      ++some.count;
    }
    TALLY_TRY(enqueue_decode(give, some, out, count));
    give = Give::kAdd;
  }
  return {};
}

}  // namespace tally::cuda
