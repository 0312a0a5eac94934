#include <algorithm>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "codec/encoder/encoder_kinds.h"
#include "codec/families.h"
#include "kernel/array/norm.h"
#include "kernel/sparse/residual.h"

namespace tally::codec {
namespace {

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
      warmup_codec_ = make_topk(density, /*exact=*/false);
      if (spec_.stage != plan::EntropyStage::kNone)
        warmup_codec_ = make_staged(std::move(warmup_codec_), spec_.stage);
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

}  // namespace

double dgc_density(const plan::CodecSpec& spec, std::uint64_t step) {
  constexpr double kStages[] = {0.25, 0.0625, 0.015625, 0.004};
  if (step >= spec.warmup) return spec.density;
  const double part = static_cast<double>(step) / static_cast<double>(spec.warmup);
  const auto stage = std::min<std::size_t>(3, static_cast<std::size_t>(4 * part));
  return std::max(kStages[stage], spec.density);
}

std::unique_ptr<Encoder> make_dgc_encoder(const plan::CodecSpec& spec, const Codec& codec,
                                          std::size_t count, const SenderFacts& facts) {
  return std::make_unique<DgcEncoder>(spec, codec, count, facts);
}

}  // namespace tally::codec
