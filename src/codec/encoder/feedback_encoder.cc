#include "base/check.h"
#include "codec/encoder/encoder_kinds.h"
#include "kernel/reduce/reduce.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

class ForgetfulEncoder final : public Encoder {
 public:
  ForgetfulEncoder(const Codec& codec, std::size_t count) : codec_(codec), count_(count) {}

  std::size_t max_bytes() const override { return codec_.max_bytes(count_); }
  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == count_);
    return codec_.encode(gradient, draw, out);
  }
  void took(std::span<const float> /*mean*/, const Draw& /*draw*/) override {}
  std::vector<State> states() override { return {}; }

 private:
  const Codec& codec_;
  const std::size_t count_;
};

class FeedbackEncoder final : public Encoder {
 public:
  FeedbackEncoder(const Codec& codec, std::size_t count) : codec_(codec), residual_(count) {}

  std::size_t max_bytes() const override { return codec_.max_bytes(residual_.size()); }
  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == residual_.size());
    kernel::kernels().combine(DataType::kFloat32, ReduceOp::kSum, residual_.data(), gradient.data(),
                              gradient.size());
    const std::size_t size = codec_.encode(residual_, draw, out);
    keep_what_is_left(codec_, out.first(size), residual_);
    return size;
  }
  void took(std::span<const float> /*mean*/, const Draw& /*draw*/) override {}
  std::vector<State> states() override { return {{.name = "residual", .values = residual_}}; }

 private:
  const Codec& codec_;
  std::vector<float> residual_;
};

}  // namespace

void keep_what_is_left(const Codec& codec, std::span<const std::byte> sent,
                       std::span<float> values) {
  const Result<void> subtracted = codec.decode_add(sent, -1.0F, values);
  TALLY_CHECK(subtracted.has_value());
  kernel::residual_kernels().keep_finite(values.data(), values.size());
}

std::unique_ptr<Encoder> make_forgetful_encoder(const Codec& codec, std::size_t count) {
  return std::make_unique<ForgetfulEncoder>(codec, count);
}

std::unique_ptr<Encoder> make_feedback_encoder(const Codec& codec, std::size_t count) {
  return std::make_unique<FeedbackEncoder>(codec, count);
}

}  // namespace tally::codec
