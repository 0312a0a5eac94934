#include "codec/conformance_test_support.h"
#include "codec/encoder/encoder.h"

// A sender with error feedback: the values sent plus the residual equal the gradients.
namespace tally::codec {
namespace {

class Feedback : public testing::TestWithParam<std::string> {
 protected:
  Feedback() : spec_(with_feedback(spec_of(GetParam()))), codec_(make_codec(spec_)) {}

  static plan::CodecSpec with_feedback(plan::CodecSpec spec) {
    spec.feedback = true;
    EXPECT_TRUE(check(spec));
    return spec;
  }
  bool is_sparse() const { return spec_.density > 0 || spec_.kind == plan::Codec::kThreshold; }

  const plan::CodecSpec spec_;
  const std::unique_ptr<Codec> codec_;
};

// Also covers codecs that keep more state than the residual.
class Memory : public Feedback {};
// Codecs whose pushes servers may drop.
class TakenBack : public Feedback {};

constexpr std::size_t kCount = 1500;

TEST_P(Feedback, SentAndKeptAreWhatWasGiven) {
  const auto encoder = Encoder::make(spec_, *codec_, kCount);
  // Without momentum correction the encoder encodes the plain gradients.
  const auto states = encoder->states();
  ASSERT_EQ(states.size(), spec_.early_momentum ? 2U : 1U);
  EXPECT_EQ(states.back().name, "residual");
  const std::span<const float> residual = states.back().values;
  ASSERT_EQ(residual.size(), kCount);
  std::vector<double> given(kCount);
  std::vector<double> sent(kCount);
  std::vector<double> rounding(kCount);
  Bytes bytes(encoder->max_bytes());
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Values gradient = normal_values(kCount, 100 + step);
    const Values kept(residual.begin(), residual.end());
    const std::size_t used = encoder->encode(gradient, {.step = step}, bytes);
    const Values decoded = decode(*codec_, std::span(bytes).first(used), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float wanted = gradient[i] + kept[i];
      // Sparse codecs send a value unchanged or keep all of it, so the residual is exact. Other
      // codecs differ by the rounding of one subtraction.
      const double off = is_sparse() ? 0 : 0x1p-24 * std::abs(double{wanted} - double{decoded[i]});
      ASSERT_NEAR(double{decoded[i]} + double{residual[i]}, wanted, off) << step << " " << i;
      given[i] += gradient[i];
      sent[i] += decoded[i];
      rounding[i] += off + 0x1p-24 * std::abs(double{wanted});
    }
  }
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_NEAR(sent[i] + double{residual[i]}, given[i], rounding[i]) << i;
}

// An encoding that servers have dropped is in the residual again: no gradient is lost.
TEST_P(TakenBack, IsInTheResidualAgain) {
  const auto one = Encoder::make(spec_, *codec_, kCount);
  Bytes bytes(one->max_bytes());
  for (std::uint64_t step = 0; step < 4; ++step) {
    const Values gradient = normal_values(kCount, step);
    const std::span<const float> residual = one->states().back().values;
    const Values before(residual.begin(), residual.end());
    const bool has_momentum = one->states().size() > 1;
    const std::size_t used = one->encode(gradient, {.step = 4 + step}, bytes);
    const Values kept(residual.begin(), residual.end());
    const Values sent = decode(*codec_, std::span(bytes).first(used), kCount);
    one->take_back(std::span(bytes).first(used));
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(residual[i], kept[i] + sent[i], 1e-6 * (1 + std::abs(sent[i])));
      if (!has_momentum) {
        EXPECT_NEAR(residual[i], before[i] + gradient[i], 1e-4);
      }
    }
  }
}

// During a warm-up senders send plain gradients and keep nothing back.
TEST_P(Feedback, IsPlainDuringAWarmUp) {
  plan::CodecSpec spec = spec_;
  spec.warmup = 3;
  ASSERT_TRUE(check(spec));
  const auto encoder = Encoder::make(spec, *codec_, kCount);
  Bytes bytes(encoder->max_bytes());
  for (std::uint64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(is_plain_at(spec, step), step < 3);
    const Values gradient = normal_values(kCount, step);
    const std::size_t used = encoder->encode(gradient, {.step = step}, bytes);
    const Values sent = decode(codec_at(spec, *codec_, step), std::span(bytes).first(used), kCount);
    if (step < 3) {
      EXPECT_TRUE(same_bits(sent, gradient)) << step;
      const std::span<const float> residual = encoder->states().back().values;
      for (const float value : residual) ASSERT_EQ(value, 0);
    } else {
      EXPECT_LE(used, codec_->max_bytes(kCount));
    }
  }
}

// A gradient that is not finite reaches the receivers, and does not spoil later gradients.
TEST_P(Feedback, IsFiniteAgainAfterOddValues) {
  const auto encoder = Encoder::make(spec_, *codec_, kCount);
  Bytes bytes(encoder->max_bytes());
  Values gradient = normal_values(kCount, 1);
  gradient[7] = std::numeric_limits<float>::quiet_NaN();
  gradient[1400] = std::numeric_limits<float>::infinity();
  std::size_t used = encoder->encode(gradient, {.step = 0}, bytes);
  const Values odd = decode(*codec_, std::span(bytes).first(used), kCount);
  EXPECT_FALSE(std::isfinite(odd[7]));
  EXPECT_FALSE(std::isfinite(odd[1400]));
  used = encoder->encode(normal_values(kCount, 2), {.step = 1}, bytes);
  for (const float value : decode(*codec_, std::span(bytes).first(used), kCount))
    EXPECT_TRUE(std::isfinite(value));
}

// A sender with restored state produces the same bytes as the original.
TEST_P(Memory, GoesOnFromItsStates) {
  const auto one = Encoder::make(spec_, *codec_, kCount);
  const auto two = Encoder::make(spec_, *codec_, kCount);
  Bytes bytes(one->max_bytes());
  for (std::uint64_t step = 0; step < 3; ++step)
    one->encode(normal_values(kCount, step), {.step = step}, bytes);
  const auto from = one->states();
  const auto to = two->states();
  ASSERT_EQ(from.size(), to.size());
  std::vector<std::string> names;
  for (std::size_t s = 0; s < from.size(); ++s) {
    std::copy(from[s].values.begin(), from[s].values.end(), to[s].values.begin());
    names.push_back(from[s].name);
  }
  EXPECT_EQ(names, state_names(spec_));
  const Values next = normal_values(kCount, 50);
  Bytes again(one->max_bytes());
  const std::size_t size = one->encode(next, {.step = 3}, bytes);
  ASSERT_EQ(two->encode(next, {.step = 3}, again), size);
  EXPECT_TRUE(
      std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size), again.begin()));
}

std::vector<std::string> with_one_state() {
  return {"fp16",          "bf16",      "int8",         "int8:16",        "fp8",
          "fp8:e5m2",      "qsgd",      "qsgd:8",       "natural",        "onebit",
          "sign",          "sign:48",   "topk",         "topk:0.1,exact", "randk:0.1",
          "threshold:0.5", "topk+rans", "sign+huffman", "int8+zstd"};
}
INSTANTIATE_TEST_SUITE_P(All, Feedback, testing::ValuesIn(with_one_state()), codec_test_name);
INSTANTIATE_TEST_SUITE_P(All, Memory, testing::ValuesIn(with_one_state()), codec_test_name);
INSTANTIATE_TEST_SUITE_P(All, TakenBack, testing::ValuesIn(with_one_state()), codec_test_name);
INSTANTIATE_TEST_SUITE_P(Two, TakenBack, testing::Values("dgc:0.01,warmup=4", "randk:0.1,mask=on"),
                         codec_test_name);
INSTANTIATE_TEST_SUITE_P(Two, Memory,
                         testing::Values("dgc:0.01,warmup=4", "onebit-adam:1", "randk:0.1,mask=on"),
                         codec_test_name);

// Without momentum, the residual of dgc is exactly the sum of the unsent values.
TEST(DgcFeedback, SentAndKeptAreWhatWasGiven) {
  const plan::CodecSpec spec = spec_of("dgc:0.01,warmup=8");
  const auto codec = make_codec(spec);
  const auto encoder = Encoder::make(spec, *codec, kCount);
  ASSERT_EQ(encoder->states()[1].name, "residual");
  const std::span<const float> residual = encoder->states()[1].values;
  Bytes bytes(encoder->max_bytes());
  for (std::uint64_t step = 0; step < 12; ++step) {
    const Values gradient = normal_values(kCount, 100 + step);
    const Values kept(residual.begin(), residual.end());
    const std::size_t used = encoder->encode(gradient, {.step = step}, bytes);
    const Values sent = decode(*codec, std::span(bytes).first(used), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float wanted = gradient[i] + kept[i];
      ASSERT_TRUE(sent[i] == 0 || residual[i] == 0) << step << " " << i;
      ASSERT_EQ(sent[i] + residual[i], wanted) << step << " " << i;
    }
  }
}

// Over all steps, the values sent plus the residual equal the momentum of sgd.
TEST(EarlyMomentum, SendsWhatTheOptimizerWouldHave) {
  for (const bool nesterov : {false, true}) {
    const plan::CodecSpec spec = spec_of("topk:1,momentum=early");
    const auto codec = make_codec(spec);
    const auto encoder =
        Encoder::make(spec, *codec, kCount, {.momentum = 0.75, .nesterov = nesterov});
    std::vector<double> momentum(kCount);
    Bytes bytes(encoder->max_bytes());
    for (std::uint64_t step = 0; step < 12; ++step) {
      const Values gradient = normal_values(kCount, 100 + step);
      const std::size_t used = encoder->encode(gradient, {.step = step}, bytes);
      const Values sent = decode(*codec, std::span(bytes).first(used), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        momentum[i] = 0.75 * momentum[i] + gradient[i];
        const double wanted = nesterov ? gradient[i] + 0.75 * momentum[i] : momentum[i];
        ASSERT_NEAR(sent[i], wanted, 1e-5) << step << " " << i;
      }
    }
  }
}

TEST(EarlyMomentum, IsFiniteAgainAfterOddValues) {
  const plan::CodecSpec spec = spec_of("sign");
  const auto codec = make_codec(spec);
  const auto encoder = Encoder::make(spec, *codec, kCount, {.momentum = 0.9});
  Bytes bytes(encoder->max_bytes());
  Values gradient = normal_values(kCount, 1);
  gradient[kCount / 2] = std::numeric_limits<float>::quiet_NaN();
  encoder->encode(gradient, {}, bytes);
  for (const Encoder::State& state : encoder->states())
    for (const float value : state.values) ASSERT_TRUE(std::isfinite(value)) << state.name;
}

// A codec that omits nothing sends each gradient whole and keeps a residual of zero.
TEST(FeedbackOfAll, SendsWhatIsGiven) {
  for (const char* const text :
       {"topk:1", "topk:1,exact", "randk:1", "threshold:1e-30", "topk:1+rans"}) {
    const plan::CodecSpec spec = spec_of(text);
    const auto codec = make_codec(spec);
    const auto encoder = Encoder::make(spec, *codec, kCount);
    Bytes bytes(encoder->max_bytes());
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Values gradient = normal_values(kCount, step);
      const std::size_t used = encoder->encode(gradient, {.step = step}, bytes);
      EXPECT_TRUE(same_bits(decode(*codec, std::span(bytes).first(used), kCount), gradient))
          << text;
      const std::span<const float> residual = encoder->states().back().values;
      for (const float value : residual) ASSERT_EQ(value, 0) << text;
    }
  }
}

}  // namespace
}  // namespace tally::codec
