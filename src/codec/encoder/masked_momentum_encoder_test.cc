#include "codec/encoder/encoder.h"
#include "codec/families.h"
#include "codec/sparse/sparse_test_support.h"

namespace tally::codec {
namespace {

constexpr std::size_t kMaskedCount = 1000;
constexpr double kMaskedDensity = 0.1;

plan::CodecSpec masked_randk() {
  return {.kind = plan::Codec::kRandk,
          .density = kMaskedDensity,
          .masks = true,
          .feedback = true,
          .early_momentum = true};
}

// Every value has its own momentum of its own sums, in plain loops.
TEST(MaskedMomentumEncoder, FollowsTheRule) {
  for (const bool nesterov : {false, true}) {
    const auto codec = make_randk(kMaskedDensity, /*scaled=*/false);
    const SenderFacts facts{.momentum = 0.75, .nesterov = nesterov};
    const auto encoder = Encoder::make(masked_randk(), *codec, kMaskedCount, facts);
    Rng rng(5);
    Floats momentum(kMaskedCount);
    Floats sum(kMaskedCount);
    std::vector<int> times(kMaskedCount);
    Bytes bytes(encoder->max_bytes());
    for (std::uint64_t step = 0; step < 40; ++step) {
      const Floats gradient = normal_values(kMaskedCount, rng);
      const std::size_t size = encoder->encode(gradient, {.step = step}, bytes);
      const Floats sent = decoded(*codec, std::span(bytes).first(size), kMaskedCount);
      for (std::size_t i = 0; i < kMaskedCount; ++i) {
        sum[i] += gradient[i];
        if (sent[i] == 0) continue;
        momentum[i] = 0.75F * momentum[i] + sum[i];
        ASSERT_EQ(sent[i], nesterov ? sum[i] + 0.75F * momentum[i] : momentum[i]) << i;
        sum[i] = 0;
        ++times[i];
      }
    }
    // 40 steps are four rounds of turns.
    for (const int each : times) ASSERT_EQ(each, 4);
  }
}

// A constant gradient moves a value as far in the end as sgd with momentum does.
TEST(MaskedMomentumEncoder, MovesValuesAsFarAsMomentumDoes) {
  const auto codec = make_randk(kMaskedDensity, /*scaled=*/false);
  const auto encoder = Encoder::make(masked_randk(), *codec, kMaskedCount, {.momentum = 0.5});
  const Floats gradient(kMaskedCount, 1.0F);
  const Floats none(kMaskedCount, 0.0F);
  std::vector<double> arrived(kMaskedCount);
  Bytes bytes(encoder->max_bytes());
  constexpr std::uint64_t kMaskedSteps = 100;
  for (std::uint64_t step = 0; step < kMaskedSteps; ++step) {
    const std::size_t size = encoder->encode(gradient, {.step = step}, bytes);
    const Floats sent = decoded(*codec, std::span(bytes).first(size), kMaskedCount);
    for (std::size_t i = 0; i < kMaskedCount; ++i) arrived[i] += sent[i];
  }
  // Of the last sums the momentum has still to come: at most those of two turns.
  for (const double each : arrived) {
    EXPECT_LE(each, kMaskedSteps / 0.5);
    EXPECT_GE(each, kMaskedSteps / 0.5 - 2 * 10 / 0.5);
  }
}

// A dropped encoding is sent again: in the end the values have moved as far.
TEST(MaskedMomentumEncoder, SendsADroppedMomentumAgain) {
  const auto codec = make_randk(kMaskedDensity, /*scaled=*/false);
  const auto whole = Encoder::make(masked_randk(), *codec, kMaskedCount, {.momentum = 0.5});
  const auto dropped = Encoder::make(masked_randk(), *codec, kMaskedCount, {.momentum = 0.5});
  std::vector<double> arrived(kMaskedCount);
  Bytes bytes(whole->max_bytes());
  const auto add = [&](Encoder& encoder, std::uint64_t step, double sign) {
    const Floats gradient(kMaskedCount, step < 30 ? 1.0F : 1e-30F);
    const std::size_t size = encoder.encode(gradient, {.step = step}, bytes);
    const auto sent = std::span(bytes).first(size);
    if (&encoder == dropped.get() && step % 7 == 3) return encoder.take_back(sent);
    const Floats values = decoded(*codec, sent, kMaskedCount);
    for (std::size_t i = 0; i < kMaskedCount; ++i) arrived[i] += sign * values[i];
  };
  for (std::uint64_t step = 0; step < 600; ++step) {
    add(*whole, step, 1);
    add(*dropped, step, -1);
  }
  for (const double difference : arrived) EXPECT_NEAR(difference, 0, 1e-3);
}

}  // namespace
}  // namespace tally::codec
