#include "codec/encoder/encoder.h"
#include "codec/families.h"
#include "codec/sparse/sparse_test_support.h"

namespace tally::codec {
namespace {

Floats sent_with_feedback(Encoder& encoder, const Codec& codec, const Floats& gradient,
                          std::uint64_t step) {
  Bytes bytes(encoder.max_bytes());
  const std::size_t size = encoder.encode(gradient, {.step = step}, bytes);
  return decoded(codec, std::span(bytes).first(size), gradient.size());
}

std::vector<std::unique_ptr<Codec>> some_codecs() {
  std::vector<std::unique_ptr<Codec>> codecs;
  codecs.push_back(make_topk(0.02, /*exact=*/true));
  codecs.push_back(make_topk(0.02, /*exact=*/false));
  codecs.push_back(make_threshold(1.5));
  codecs.push_back(make_randk(0.02, /*scaled=*/false));
  return codecs;
}

const plan::CodecSpec kFeedback{.kind = plan::Codec::kTopk, .feedback = true};

TEST(FeedbackEncoder, WhatIsSentAndWhatIsLeftAreTheGradients) {
  Rng rng(1);
  constexpr std::size_t kCount = 3000;
  for (const auto& codec : some_codecs()) {
    const auto encoder = Encoder::make(kFeedback, *codec, kCount);
    ASSERT_EQ(encoder->states().size(), 1U);
    EXPECT_EQ(encoder->states()[0].name, "residual");
    const std::span<float> residual = encoder->states()[0].values;
    std::vector<double> all(kCount);
    std::vector<double> arrived(kCount);
    for (std::uint64_t step = 0; step < 50; ++step) {
      const Floats gradient = normal_values(kCount, rng);
      const Floats before(residual.begin(), residual.end());
      const Floats sent = sent_with_feedback(*encoder, *codec, gradient, step);
      for (std::size_t i = 0; i < kCount; ++i) {
        // Each value is sent whole or kept whole, bit for bit.
        const float whole = before[i] + gradient[i];
        ASSERT_TRUE((sent[i] == whole && residual[i] == 0) ||
                    (sent[i] == 0 && residual[i] == whole))
            << i;
        all[i] += static_cast<double>(gradient[i]);
        arrived[i] += static_cast<double>(sent[i]);
      }
    }
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(arrived[i] + static_cast<double>(residual[i]), all[i], 1e-4);
  }
}

TEST(FeedbackEncoder, ZeroGradientsSendWhatIsLeftUntilNothingIs) {
  Rng rng(2);
  const auto codec = make_topk(0.1, /*exact=*/true);
  const auto encoder = Encoder::make(kFeedback, *codec, 1000);
  const Floats gradient = normal_values(1000, rng);
  Floats arrived = sent_with_feedback(*encoder, *codec, gradient, 0);
  for (std::uint64_t step = 1; step < 10; ++step) {
    const Floats more = sent_with_feedback(*encoder, *codec, Floats(1000), step);
    for (std::size_t i = 0; i < 1000; ++i) arrived[i] += more[i];
  }
  EXPECT_EQ(arrived, gradient);
  const std::span<const float> residual = encoder->states()[0].values;
  for (const float left : residual) EXPECT_EQ(left, 0.0F);
}

TEST(FeedbackEncoder, NonFiniteGradientsArriveOnceAndLeaveNothing) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& codec : some_codecs()) {
    const auto encoder = Encoder::make(kFeedback, *codec, 100);
    sent_with_feedback(*encoder, *codec, Floats(100, 0.25F), 0);
    Floats gradient(100, 0.25F);
    gradient[3] = std::nanf("");
    gradient[40] = kInfinity;
    gradient[99] = -kInfinity;
    const Floats sent = sent_with_feedback(*encoder, *codec, gradient, 1);
    EXPECT_TRUE(std::isnan(sent[3]));
    EXPECT_EQ(sent[40], kInfinity);
    EXPECT_EQ(sent[99], -kInfinity);
    const std::span<const float> residual = encoder->states()[0].values;
    for (const std::size_t i : {3U, 40U, 99U}) EXPECT_EQ(residual[i], 0.0F);
    for (const float left : residual) EXPECT_TRUE(std::isfinite(left));
    for (const float value : sent_with_feedback(*encoder, *codec, Floats(100, 0.25F), 2))
      EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(FeedbackEncoder, WithoutFeedbackNothingIsKept) {
  const plan::CodecSpec spec{.kind = plan::Codec::kTopk};
  Rng rng(3);
  const auto codec = make_topk(0.1, /*exact=*/true);
  const auto encoder = Encoder::make(spec, *codec, 500);
  EXPECT_TRUE(encoder->states().empty());
  EXPECT_TRUE(state_names(spec).empty());
  EXPECT_EQ(encoder->max_bytes(), codec->max_bytes(500));
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Floats gradient = normal_values(500, rng);
    EXPECT_EQ(sent_with_feedback(*encoder, *codec, gradient, step), round_trip(*codec, gradient));
  }
}

}  // namespace
}  // namespace tally::codec
