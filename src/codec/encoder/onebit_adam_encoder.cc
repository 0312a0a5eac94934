#include <algorithm>
#include <array>

#include "base/check.h"
#include "codec/encoder/encoder_kinds.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

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

  std::size_t max_bytes() const override {
    const std::size_t later = codec_.max_bytes(mean_.size());
    if (spec_.warmup == 0) return later;
    return std::max(later, codec_at(spec_, codec_, 0).max_bytes(mean_.size()));
  }

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

std::unique_ptr<Encoder> make_onebit_adam_encoder(const plan::CodecSpec& spec, const Codec& codec,
                                                  std::size_t count, const SenderFacts& facts) {
  return std::make_unique<OnebitAdamEncoder>(spec, codec, count, facts);
}

}  // namespace tally::codec
