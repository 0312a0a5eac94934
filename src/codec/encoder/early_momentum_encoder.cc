#include <memory>
#include <utility>

#include "base/check.h"
#include "codec/encoder/encoder_kinds.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

// u = momentum * u + gradient is encoded; nesterov: gradient + momentum * u.
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
    kernel::residual_kernels().keep_finite(momentum_.data(), count);
    return size;
  }

  void took(std::span<const float> mean, const Draw& draw) override { inner_->took(mean, draw); }

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

std::unique_ptr<Encoder> make_early_momentum_encoder(std::unique_ptr<Encoder> inner,
                                                     std::size_t count, const SenderFacts& facts) {
  return std::make_unique<EarlyMomentumEncoder>(std::move(inner), count, facts);
}

}  // namespace tally::codec
