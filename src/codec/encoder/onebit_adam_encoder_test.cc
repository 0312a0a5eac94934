#include "codec/encoder/encoder.h"
#include "codec/families.h"
#include "codec/sparse/sparse_test_support.h"

namespace tally::codec {
namespace {

plan::CodecSpec onebit_adam(std::uint64_t warmup) {
  return {.kind = plan::Codec::kOnebitAdam, .block = 64, .warmup = warmup, .feedback = true};
}

Floats sent_with_momentum(Encoder& encoder, const plan::CodecSpec& spec, const Codec& codec,
                          const Floats& gradient, std::uint64_t step) {
  Bytes bytes(encoder.max_bytes());
  const std::size_t size = encoder.encode(gradient, {.step = step}, bytes);
  return decoded(codec_at(spec, codec, step), std::span(bytes).first(size), gradient.size());
}

TEST(OnebitAdamEncoder, SendsRawGradientsBeforeTheFreeze) {
  const plan::CodecSpec spec = onebit_adam(5);
  const auto codec = make_sign(64);
  const auto encoder = Encoder::make(spec, *codec, 300);
  EXPECT_EQ(state_names(spec), (std::vector<std::string>{"mean", "residual"}));
  Rng rng(1);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Floats gradient = awkward_values(300, rng, /*odd_ones=*/true);
    EXPECT_TRUE(same_bits(sent_with_momentum(*encoder, spec, *codec, gradient, step), gradient));
    const std::span<const float> residual = encoder->states()[1].values;
    for (const float left : residual) EXPECT_EQ(left, 0.0F);
  }
  const Floats gradient = normal_values(300, rng);
  EXPECT_NE(sent_with_momentum(*encoder, spec, *codec, gradient, 5), gradient);
}

TEST(OnebitAdamEncoder, TheCodecChangesOnlyForOnebitAdamAndOnlyOnce) {
  const auto codec = make_sign(64);
  EXPECT_NE(&codec_at(onebit_adam(3), *codec, 2), codec.get());
  EXPECT_EQ(&codec_at(onebit_adam(3), *codec, 3), codec.get());
  EXPECT_EQ(&codec_at(onebit_adam(0), *codec, 0), codec.get());
  const plan::CodecSpec dgc{.kind = plan::Codec::kDgc, .warmup = 100};
  EXPECT_EQ(&codec_at(dgc, *codec, 0), codec.get());
}

// The momentum follows Adam's rule and is then replaced by the mean that the ranks receive. The
// values sent plus the residual equal the momentum plus the previous residual.
TEST(OnebitAdamEncoder, MemoryFollowsTheRule) {
  constexpr std::size_t kCount = 300;
  constexpr double kBeta = 0.8;
  const plan::CodecSpec spec = onebit_adam(6);
  const auto codec = make_sign(64);
  const auto encoder = Encoder::make(spec, *codec, kCount, {.beta1 = kBeta});
  ASSERT_EQ(encoder->states().size(), 2U);
  const std::span<const float> mean = encoder->states()[0].values;
  const std::span<const float> residual = encoder->states()[1].values;
  Rng rng(2);
  std::vector<double> m(kCount), e(kCount);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Floats gradient = normal_values(kCount, rng);
    const Floats sent = sent_with_momentum(*encoder, spec, *codec, gradient, step);
    // The mean of all ranks, which includes the gradients of the others.
    Floats back = normal_values(kCount, rng);
    for (std::size_t i = 0; i < kCount; ++i) {
      if (step >= 6) e[i] += kBeta * m[i] + (1 - kBeta) * gradient[i] - sent[i];
      back[i] = 0.5F * (back[i] + sent[i]);
      m[i] = step < 6 ? kBeta * m[i] + (1 - kBeta) * back[i] : back[i];
    }
    encoder->observe_mean(back, {.step = step});
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(mean[i], m[i], 1e-5) << step;
      ASSERT_NEAR(residual[i], e[i], 1e-5) << step;
    }
  }
}

TEST(OnebitAdamEncoder, WithoutWarmupNothingIsRaw) {
  const plan::CodecSpec spec = onebit_adam(0);
  const auto codec = make_sign(64);
  const auto encoder = Encoder::make(spec, *codec, 100);
  EXPECT_EQ(encoder->max_bytes(), codec->max_bytes(100));
  const Floats sent = sent_with_momentum(*encoder, spec, *codec, Floats(100, 1.0F), 0);
  for (const float value : sent) EXPECT_NEAR(value, 0.1F, 1e-6);
}

TEST(OnebitAdamEncoder, ElementsWithoutGradientAreTakenBackByFeedback) {
  // The first half never has a gradient. Its signs are noise, which error feedback keeps below one
  // step in total.
  const plan::CodecSpec spec = onebit_adam(0);
  const auto codec = make_sign(64);
  const auto encoder = Encoder::make(spec, *codec, 64, {.beta1 = 0});
  Floats gradient(64);
  for (std::size_t i = 32; i < 64; ++i) gradient[i] = 1;
  Floats sum(64);
  for (std::uint64_t step = 0; step < 200; ++step) {
    const Floats sent = sent_with_momentum(*encoder, spec, *codec, gradient, step);
    for (std::size_t i = 0; i < 64; ++i) sum[i] += sent[i];
    encoder->observe_mean(sent, {.step = step});
    for (std::size_t i = 0; i < 32; ++i) ASSERT_LE(std::fabs(sum[i]), 2.0F) << step;
  }
  EXPECT_GT(sum[63], 150.0F);
}

TEST(OnebitAdamEncoder, NonFiniteGradientsLeaveNothing) {
  const plan::CodecSpec spec = onebit_adam(1);
  const auto codec = make_sign(64);
  const auto encoder = Encoder::make(spec, *codec, 200);
  Floats bad(200, 0.5F);
  bad[70] = std::nanf("");
  for (std::uint64_t step = 0; step < 2; ++step) {
    const Floats sent = sent_with_momentum(*encoder, spec, *codec, bad, step);
    EXPECT_FALSE(std::isfinite(sent[70]));
    encoder->observe_mean(sent, {.step = step});
    for (const Encoder::State& state : encoder->states())
      for (const float value : state.values) EXPECT_TRUE(std::isfinite(value));
  }
  for (const float value : sent_with_momentum(*encoder, spec, *codec, Floats(200, 0.5F), 2))
    EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace tally::codec
