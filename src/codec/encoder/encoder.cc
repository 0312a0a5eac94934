#include "codec/encoder/encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "codec/families.h"
#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/reduce/reduce.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

// The most bytes of an encoding, in any step.
std::size_t most_bytes(const plan::CodecSpec& spec, const Codec& codec, std::size_t count) {
  const std::size_t later = codec.max_bytes(count);
  return std::max(later, codec_at(spec, codec, 0).max_bytes(count));
}

class StatelessEncoder final : public Encoder {
 public:
  StatelessEncoder(const plan::CodecSpec& spec, const Codec& codec, std::size_t count)
      : spec_(spec), codec_(codec), count_(count) {}

  std::size_t max_bytes() const override { return most_bytes(spec_, codec_, count_); }
  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == count_);
    return codec_at(spec_, codec_, draw.step).encode(gradient, draw, out);
  }
  std::vector<State> states() override { return {}; }

 private:
  const plan::CodecSpec spec_;
  const Codec& codec_;
  const std::size_t count_;
};

// Subtracts from `values` what the receiver of `sent` decodes, and sets differences that are not
// finite to 0: the receiver has seen those, and one such gradient must not spoil all later ones.
void subtract_sent(const Codec& codec, std::span<const std::byte> sent, std::span<float> values) {
  const Result<void> subtracted = codec.decode_add(sent, -1.0F, values);
  TALLY_CHECK(subtracted.has_value());
  kernel::residual_kernels().zero_nonfinite(values.data(), values.size());
}

void add_dropped(const Codec& codec, std::span<const std::byte> dropped, std::span<float> values) {
  const Result<void> added = codec.decode_add(dropped, 1.0F, values);
  TALLY_CHECK(added.has_value());
  kernel::residual_kernels().zero_nonfinite(values.data(), values.size());
}

// Error feedback: the residual of one step is added to the gradient of the next.
class FeedbackEncoder final : public Encoder {
 public:
  FeedbackEncoder(const plan::CodecSpec& spec, const Codec& codec, std::size_t count)
      : spec_(spec), codec_(codec), residual_(count) {}

  std::size_t max_bytes() const override { return most_bytes(spec_, codec_, residual_.size()); }
  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == residual_.size());
    kernel::kernels().combine(DataType::kFloat32, ReduceOp::kSum, residual_.data(), gradient.data(),
                              gradient.size());
    const Codec& codec = codec_at(spec_, codec_, draw.step);
    const std::size_t size = codec.encode(residual_, draw, out);
    subtract_sent(codec, out.first(size), residual_);
    return size;
  }
  void take_back(std::span<const std::byte> sent) override { add_dropped(codec_, sent, residual_); }
  std::vector<State> states() override { return {{.name = "residual", .values = residual_}}; }

 private:
  const plan::CodecSpec spec_;
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
  void take_back(std::span<const std::byte> sent) override { inner_->take_back(sent); }
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

// randk: the momentum of a value has a clock of its own, which advances when the value is sent:
//   residual += gradient                                  for all values
//   u = momentum * u + residual, residual = 0, sends u    for the values whose turn it is
// With nesterov it sends residual + momentum * u. All senders send the same values, so the mean of
// their u is the momentum of an optimizer that updates a value only when its mean arrives. Momentum
// before the feedback would instead count a gradient once for every step that the value waits. A
// value whose residual is exactly 0 has no turn: its momentum stays as it is.
class MaskedMomentumEncoder final : public Encoder {
 public:
  MaskedMomentumEncoder(const plan::CodecSpec& spec, const Codec& codec, std::size_t count,
                        const SenderFacts& facts)
      : spec_(spec),
        codec_(codec),
        factor_(static_cast<float>(facts.momentum)),
        nesterov_(facts.nesterov),
        momentum_(count),
        residual_(count),
        sent_(count) {}

  std::size_t max_bytes() const override { return most_bytes(spec_, codec_, residual_.size()); }
  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == residual_.size());
    kernel::kernels().combine(DataType::kFloat32, ReduceOp::kSum, residual_.data(), gradient.data(),
                              gradient.size());
    const Codec& codec = codec_at(spec_, codec_, draw.step);
    const bool sends_all = is_plain_at(spec_, draw.step);
    const std::size_t drawn = codec.encode(residual_, draw, out);
    const Result<void> read = codec.decode(out.first(drawn), sent_);
    TALLY_CHECK(read.has_value());
    subtract_sent(codec, out.first(drawn), residual_);
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (!sends_all && sent_[i] == 0) continue;
      momentum_[i] = factor_ * momentum_[i] + sent_[i];
      sent_[i] = nesterov_ ? sent_[i] + factor_ * momentum_[i] : momentum_[i];
    }
    kernel::residual_kernels().zero_nonfinite(momentum_.data(), momentum_.size());
    return codec.encode(sent_, draw, out);
  }
  // A dropped u is sent again as part of the next sum, from which the momentum begins anew. The
  // values then move as far in the end (with nesterov about as far), one turn later.
  void take_back(std::span<const std::byte> sent) override {
    add_dropped(codec_, sent, residual_);
    const Result<void> read = codec_.decode(sent, sent_);
    TALLY_CHECK(read.has_value());
    for (std::size_t i = 0; i < sent_.size(); ++i)
      if (sent_[i] != 0) momentum_[i] = 0;
  }
  std::vector<State> states() override {
    return {{.name = "momentum", .values = momentum_}, {.name = "residual", .values = residual_}};
  }

 private:
  const plan::CodecSpec spec_;
  const Codec& codec_;
  const float factor_;
  const bool nesterov_;
  std::vector<float> momentum_;
  std::vector<float> residual_;
  std::vector<float> sent_;
};

// Deep gradient compression (Lin, Han, Mao, Wang, Dally 2018). For each value, u is its momentum
// and v the unsent sum:
//
//   gradient clipped to clip / sqrt(ranks)
//   u = momentum * u + gradient            nesterov: u = momentum * (u + gradient)
//   v = v + u                                        v = v + u + gradient
//   send the largest of v; where v is sent set v = 0, and with masks u = 0
//
// The optimizer therefore applies the mean without momentum. The paper clips by the norm of a
// worker's whole gradient. Here it is the norm of the run, which is all that an encoder sees, so
// the same limit clips less.
class DgcEncoder final : public Encoder {
 public:
  DgcEncoder(const plan::CodecSpec& spec, const Codec& codec, std::size_t count,
             const SenderFacts& facts)
      : spec_(spec), codec_(codec), facts_(facts), momentum_(count), residual_(count) {
    TALLY_CHECK(facts.ranks >= 1);
  }

  // The bound of topk is the same at every density.
  std::size_t max_bytes() const override { return codec_.max_bytes(residual_.size()); }

  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    const std::size_t count = residual_.size();
    TALLY_CHECK(gradient.size() == count);
    const auto& kernels = kernel::residual_kernels();
    const kernel::MomentumFactors factors{.momentum = static_cast<float>(facts_.momentum),
                                          .scale = clipping_of(gradient)};
    (facts_.nesterov ? kernels.accumulate_nesterov : kernels.accumulate)(
        factors, gradient.data(), momentum_.data(), residual_.data(), count);

    const std::size_t size = codec_of(draw.step).encode(residual_, draw, out);
    // No zero is ever sent, so a decoded zero was not sent.
    const auto sent = std::make_unique_for_overwrite<float[]>(count);
    const Result<void> read = codec_.decode(out.first(size), {sent.get(), count});
    TALLY_CHECK(read.has_value());
    kernels.clear_sent(sent.get(), spec_.masks, momentum_.data(), residual_.data(), count);
    return size;
  }

  // The momentum that was masked with the values stays 0.
  void take_back(std::span<const std::byte> sent) override { add_dropped(codec_, sent, residual_); }

  std::vector<State> states() override {
    return {{.name = "momentum", .values = momentum_}, {.name = "residual", .values = residual_}};
  }

 private:
  // A norm that is not finite clips nothing, so that receivers see the non-finite values.
  float clipping_of(std::span<const float> gradient) const {
    if (spec_.clip <= 0) return 1;
    const double limit = spec_.clip / std::sqrt(static_cast<double>(facts_.ranks));
    const double norm = std::sqrt(kernel::square_sum(gradient));
    return std::isfinite(norm) && norm > limit ? static_cast<float>(limit / norm) : 1.0F;
  }

  const Codec& codec_of(std::uint64_t step) {
    const double density = dgc_density(spec_, step);
    if (density == spec_.density) {
      warmup_codec_.reset();
      return codec_;
    }
    if (warmup_codec_ == nullptr || density != warmup_density_) {
      warmup_codec_ = make_staged(make_topk(density, /*exact=*/false), spec_.stage);
      warmup_density_ = density;
    }
    return *warmup_codec_;
  }

  const plan::CodecSpec spec_;
  const Codec& codec_;
  const SenderFacts facts_;
  std::vector<float> momentum_;  // u
  std::vector<float> residual_;  // v
  double warmup_density_ = 0;
  std::unique_ptr<Codec> warmup_codec_;
};

// 1-bit Adam (Tang et al. 2021). For `warmup` steps gradients are sent as they are, and the mean of
// all gradients updates the momentum m, as in Adam. Then each sender adds its gradient to m and
// sends the sum with error feedback. The mean of these sums is the next m, which the optimizer
// applies over a frozen second moment.
//
// Signs have no zero: an element that never had a gradient is decoded as plus or minus its block's
// magnitude, and feedback corrects it in the next step. Its second moment is exactly 0, by which
// the optimizer recognises it.
class OnebitAdamEncoder final : public Encoder {
 public:
  OnebitAdamEncoder(const plan::CodecSpec& spec, const Codec& codec, std::size_t count,
                    const SenderFacts& facts)
      : spec_(spec),
        codec_(codec),
        beta_(static_cast<float>(facts.beta1)),
        gain_(static_cast<float>(1 - facts.beta1)),
        mean_(count),
        residual_(count) {}

  std::size_t max_bytes() const override { return most_bytes(spec_, codec_, mean_.size()); }

  std::size_t encode(std::span<const float> gradient, const Draw& draw,
                     std::span<std::byte> out) override {
    TALLY_CHECK(gradient.size() == mean_.size());
    if (draw.step < spec_.warmup)
      return codec_at(spec_, codec_, draw.step).encode(gradient, draw, out);
    const std::array<const void*, 3> terms = {residual_.data(), mean_.data(), gradient.data()};
    const std::array<float, 3> weights = {1.0F, beta_, gain_};
    kernel::weighted_sum(DataType::kFloat32, terms, weights, residual_.data(), residual_.size());
    const std::size_t size = codec_.encode(residual_, draw, out);
    subtract_sent(codec_, out.first(size), residual_);
    return size;
  }

  // Does nothing. A message has the momentum of all workers beside this sender's gradient, and only
  // the latter would be lost: it cannot be told from the message. onebit-adam needs update=bsp,
  // where servers drop no push.
  void take_back(std::span<const std::byte> /*sent*/) override {}

  // A mean that is not finite has reached the optimizer; here it becomes 0, as in a residual.
  void observe_mean(std::span<const float> mean, const Draw& draw) override {
    TALLY_CHECK(mean.size() == mean_.size());
    if (draw.step < spec_.warmup) {
      const std::array<const void*, 2> terms = {mean_.data(), mean.data()};
      const std::array<float, 2> weights = {beta_, gain_};
      kernel::weighted_sum(DataType::kFloat32, terms, weights, mean_.data(), mean_.size());
    } else {
      std::copy(mean.begin(), mean.end(), mean_.begin());
    }
    kernel::residual_kernels().zero_nonfinite(mean_.data(), mean_.size());
  }

  std::vector<State> states() override {
    return {{.name = "mean", .values = mean_}, {.name = "residual", .values = residual_}};
  }

 private:
  const plan::CodecSpec spec_;
  const Codec& codec_;
  const float beta_;
  const float gain_;
  std::vector<float> mean_;  // m
  std::vector<float> residual_;
};

}  // namespace

double dgc_density(const plan::CodecSpec& spec, std::uint64_t step) {
  constexpr double kStages[] = {0.25, 0.0625, 0.015625, 0.004};
  if (step >= spec.warmup) return spec.density;
  const double part = static_cast<double>(step) / static_cast<double>(spec.warmup);
  const auto stage = std::min<std::size_t>(3, static_cast<std::size_t>(4 * part));
  return std::max(kStages[stage], spec.density);
}

std::unique_ptr<Encoder> Encoder::make(const plan::CodecSpec& spec, const Codec& codec,
                                       std::size_t count, const SenderFacts& facts) {
  if (spec.kind == plan::Codec::kDgc)
    return std::make_unique<DgcEncoder>(spec, codec, count, facts);
  if (spec.kind == plan::Codec::kOnebitAdam)
    return std::make_unique<OnebitAdamEncoder>(spec, codec, count, facts);
  if (spec.kind == plan::Codec::kRandk && spec.masks && spec.early_momentum)
    return std::make_unique<MaskedMomentumEncoder>(spec, codec, count, facts);
  std::unique_ptr<Encoder> encoder;
  if (spec.feedback) {
    encoder = std::make_unique<FeedbackEncoder>(spec, codec, count);
  } else {
    encoder = std::make_unique<StatelessEncoder>(spec, codec, count);
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

bool is_plain_at(const plan::CodecSpec& spec, std::uint64_t step) {
  return spec.kind != plan::Codec::kDgc && step < spec.warmup;
}

const Codec& codec_at(const plan::CodecSpec& spec, const Codec& codec, std::uint64_t step) {
  if (!is_plain_at(spec, step)) return codec;
  static const std::unique_ptr<const Codec> plain = make_plain();
  return *plain;
}

}  // namespace tally::codec
