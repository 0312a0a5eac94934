#include "codec/encoder/encoder.h"

#include <utility>

#include "base/check.h"
#include "codec/encoder/encoder_kinds.h"
#include "codec/families.h"
#include "kernel/reduce/reduce.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

class StatelessEncoder final : public Encoder {
 public:
  StatelessEncoder(const Codec& codec, std::size_t count) : codec_(codec), count_(count) {}

  std::size_t max_bytes() const override { return codec_.max_bytes(count_); }
  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == count_);
    return codec_.encode(gradient, draw, out);
  }
  std::vector<State> states() override { return {}; }

 private:
  const Codec& codec_;
  const std::size_t count_;
};

// Error feedback: the residual of one step is added to the gradient of the next.
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
    subtract_sent(codec_, out.first(size), residual_);
    return size;
  }
  std::vector<State> states() override { return {{.name = "residual", .values = residual_}}; }

 private:
  const Codec& codec_;
  std::vector<float> residual_;
};

// Encodes u = momentum * u + gradient; with nesterov gradient + momentum * u.
class EarlyMomentumEncoder final : public Encoder {
 public:
  EarlyMomentumEncoder(std::unique_ptr<Encoder> inner, std::size_t count, const SenderFacts& facts)
      : inner_(std::move(inner)),
        factor_(static_cast<float>(facts.momentum)),
        nesterov_(facts.nesterov),
        momentum_(count) {}

  std::size_t max_bytes() const override { return inner_->max_bytes(); }

  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    const std::size_t count = momentum_.size();
    TALLY_CHECK(gradient.size() == count);
    for (std::size_t i = 0; i < count; ++i) momentum_[i] = factor_ * momentum_[i] + gradient[i];
    const std::size_t size = inner_->encode(nesterov_ ? ahead(gradient) : momentum_, draw, out);
    kernel::residual_kernels().zero_nonfinite(momentum_.data(), count);
    return size;
  }
  void observe_mean(std::span<const float> mean, const Draw& draw) override {
    inner_->observe_mean(mean, draw);
  }
  std::vector<State> states() override {
    std::vector<State> all = {{.name = "momentum", .values = momentum_}};
    for (State& state : inner_->states()) all.push_back(std::move(state));
    return all;
  }

 private:
  std::span<const float> ahead(std::span<const float> gradient) {
    ahead_.resize(gradient.size());
    for (std::size_t i = 0; i < ahead_.size(); ++i)
      ahead_[i] = gradient[i] + factor_ * momentum_[i];
    return ahead_;
  }

  const std::unique_ptr<Encoder> inner_;
  const float factor_;
  const bool nesterov_;
  std::vector<float> momentum_;
  std::vector<float> ahead_;
};

}  // namespace

void subtract_sent(const Codec& codec, std::span<const std::byte> sent, std::span<float> values) {
  const Result<void> subtracted = codec.decode_add(sent, -1.0F, values);
  TALLY_CHECK(subtracted.has_value());
  kernel::residual_kernels().zero_nonfinite(values.data(), values.size());
}

std::unique_ptr<Encoder> Encoder::make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& facts) {
  if (spec.kind == plan::Codec::kDgc) return make_dgc_encoder(spec, codec, count, facts);
  if (spec.kind == plan::Codec::kOnebitAdam)
    return make_onebit_adam_encoder(spec, codec, count, facts);
  std::unique_ptr<Encoder> encoder;
  if (spec.feedback) {
    encoder = std::make_unique<FeedbackEncoder>(codec, count);
  } else {
    encoder = std::make_unique<StatelessEncoder>(codec, count);
  }
  if (!spec.early_momentum) return encoder;
  return std::make_unique<EarlyMomentumEncoder>(std::move(encoder), count, facts);
}

std::vector<std::string> state_names(const plan::CodecSpec& spec) {
  if (spec.kind == plan::Codec::kDgc) return {"momentum", "residual"};
  if (spec.kind == plan::Codec::kOnebitAdam) return {"mean", "residual"};
  std::vector<std::string> names;
  if (spec.early_momentum) names.emplace_back("momentum");
  if (spec.feedback) names.emplace_back("residual");
  return names;
}

const Codec& codec_at(const plan::CodecSpec& spec, const Codec& codec, std::uint64_t step) {
  if (spec.kind != plan::Codec::kOnebitAdam || step >= spec.warmup) return codec;
  static const std::unique_ptr<const Codec> plain = make_plain();
  return *plain;
}

}  // namespace tally::codec
