#include "codec/conformance_test_support.h"

// Codecs with stochastic rounding: over many draws the mean equals the encoded value, and the
// variance stays within the documented bound.
namespace tally::codec {
namespace {

class RoundedByChance : public testing::TestWithParam<std::string> {};
class Bias : public EveryCodec {};

// The largest permitted variance of a value of magnitude x in a block whose largest magnitude is
// `most`.
double variance_bound(const plan::CodecSpec& spec, double x, double most) {
  switch (spec.kind) {
    case plan::Codec::kQsgd: {
      const double step = most / ((1 << (spec.bits - 1)) - 1);
      return step * step / 4;
    }
    case plan::Codec::kTernary:
      return x * (most - x);
    case plan::Codec::kNatural:
      return x * x / 8;
    default:
      ADD_FAILURE() << "nothing is written of its variance";
      return 0;
  }
}

TEST_P(RoundedByChance, IsUnbiasedWithinItsVariance) {
  constexpr std::size_t kCount = 24;
  constexpr double kDraws = 1e5;
  const Values in = normal_values(kCount, 3);
  const plan::CodecSpec spec = spec_of(GetParam());
  const auto codec = make_codec(spec);
  const ErrorBounds bounds(spec, in);
  ASSERT_TRUE(codec->traits().unbiased);
  std::vector<double> sum(kCount);
  std::vector<double> squares(kCount);
  Bytes bytes(codec->max_bytes(kCount));
  Values out(kCount);
  for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(kDraws); ++step) {
    const std::size_t used = codec->encode(in, {.seed = 1, .step = step}, bytes);
    ASSERT_TRUE(codec->decode(std::span(bytes).first(used), out));
    for (std::size_t i = 0; i < kCount; ++i) {
      const double error = double{out[i]} - double{in[i]};
      sum[i] += error;
      squares[i] += error * error;
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    const double variance = squares[i] / kDraws;
    const double rounding = 1e-6 * bounds.most(i);
    EXPECT_LE(std::abs(sum[i] / kDraws), 4 * std::sqrt(variance / kDraws) + rounding) << in[i];
    // The measured variance has a random error as well.
    EXPECT_LE(variance, 1.02 * variance_bound(spec, std::abs(double{in[i]}), bounds.most(i)) +
                            rounding * rounding)
        << in[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundedByChance,
                         testing::Values("qsgd:2", "qsgd", "qsgd:8", "qsgd:4,block=16", "natural",
                                         "ternary:clip=0", "qsgd+rans"),
                         codec_test_name);

TEST_P(Bias, IsDeniedOnlyByThoseThatRoundByChanceOrNotAtAll) {
  with_each_stage([&] {
    const bool by_chance = spec_.kind == plan::Codec::kQsgd ||
                           spec_.kind == plan::Codec::kNatural ||
                           (spec_.kind == plan::Codec::kTernary && spec_.clip == 0);
    if (codec_->traits().unbiased) {
      EXPECT_TRUE(by_chance || codec_->traits().exact);
    } else {
      EXPECT_FALSE(by_chance);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Bias, testing::ValuesIn(codec_texts()), codec_test_name);

}  // namespace
}  // namespace tally::codec
