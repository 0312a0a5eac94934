#include "codec/families.h"
#include "codec/quantize/stochastic_test_support.h"

namespace tally::codec {
namespace {

float largest(const Values& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::fabs(value));
  return most;
}

// The scale from the formula, in double.
double ternary_scale(const Values& values, double clip) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  const double limit = clip * std::sqrt(squares / static_cast<double>(values.size()));
  const auto most = static_cast<double>(largest(values));
  return clip == 0 ? most : std::min(most, limit);
}

TEST(Ternary, DecodesWhatAPlainLoopRoundsTo) {
  Rng rng(1);
  const auto codec = make_ternary(0);
  for (std::size_t count = 0; count <= 1000; ++count) {
    const Values values = odd_values(count, rng);
    const Draw draw = {.step = count};
    Values expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto random = kernel::random_bits(key_of(draw), static_cast<std::uint32_t>(i));
      if (kernel::unit_of(random) < std::fabs(values[i]) / largest(values))
        expected[i] = std::copysign(largest(values), values[i]);
    }
    const ByteVector bytes = encode_at(*codec, values, count % 64, draw);
    ASSERT_EQ(bytes.size(), codec->max_bytes(count));
    ASSERT_EQ(decode_at(*codec, bytes, count, (count + 17) % 64), expected) << count;
  }
}

TEST(Ternary, LongRunsComeBackInTheirOrder) {
  Rng rng(2);
  const auto codec = make_ternary(0);
  for (const std::size_t count : {2559, 2560, 2561, 5121, 65535, 65536}) {
    Values values(count);
    for (float& value : values) value = static_cast<float>(rng.below(3)) - 1;
    EXPECT_EQ(through(*codec, values), values) << count;
  }
}

TEST(Ternary, AddressesDoNotMatter) {
  Rng rng(3);
  const auto codec = make_ternary(2.5);
  const Values values = random_values(777, rng);
  const ByteVector wanted = encode_at(*codec, values, 0);
  for (std::size_t shift = 0; shift < 64; ++shift) {
    EXPECT_EQ(encode_at(*codec, values, shift), wanted);
    EXPECT_EQ(decode_at(*codec, wanted, 777, shift), decode_at(*codec, wanted, 777));
  }
}

TEST(Ternary, FiveValuesTakeAByte) {
  const auto codec = make_ternary(2.5);
  EXPECT_EQ(codec->max_bytes(0), 0U);
  EXPECT_EQ(codec->max_bytes(1), 5U);
  EXPECT_EQ(codec->max_bytes(5), 5U);
  EXPECT_EQ(codec->max_bytes(6), 6U);
  EXPECT_EQ(codec->max_bytes(65536), 4U + 13108);
  EXPECT_FALSE(codec->traits().unbiased);
  EXPECT_TRUE(make_ternary(0)->traits().unbiased);
}

void expect_unbiased(double clip, const Values& values) {
  constexpr std::uint64_t kDraws = 100000;
  const double scale = ternary_scale(values, clip);
  const Moments moments = moments_of(*make_ternary(clip), values, kDraws);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double clipped = std::clamp(static_cast<double>(values[i]), -scale, scale);
    const double variance = std::fabs(clipped) * (scale - std::fabs(clipped));
    const double sigma = std::sqrt(variance / static_cast<double>(kDraws));
    EXPECT_NEAR(moments.means[i], clipped, 4 * sigma + 1e-6) << i;
    EXPECT_NEAR(moments.variances[i], variance, 0.02 * scale * scale) << i;
  }
}

TEST(Ternary, IsUnbiased) { expect_unbiased(0, {1.0F, -1.5F, 0.01F, -0.3F, 0.75F, 0.0F, -1e-3F}); }

TEST(Ternary, IsUnbiasedOfWhatIsClipped) {
  const Values values = {1.0F, -1.5F, 0.01F, -0.3F, 0.75F, 0.0F, -1e-3F};
  ASSERT_LT(ternary_scale(values, 1), 1.0);
  expect_unbiased(1, values);
}

TEST(Ternary, MagnitudesAreCutAtSoManyDeviations) {
  Values values(1000, 0.1F);
  values[500] = 100;
  const Values out = through(*make_ternary(2.5), values);
  EXPECT_NEAR(out[500], ternary_scale(values, 2.5), 1e-5);
  EXPECT_LT(out[500], 10.0F);
}

TEST(Ternary, EqualValuesAreNotCut) {
  EXPECT_EQ(through(*make_ternary(2.5), Values(100, -0.3F)), Values(100, -0.3F));
  EXPECT_EQ(through(*make_ternary(2.5), Values(100, -0.0F)), Values(100, 0.0F));
  EXPECT_EQ(through(*make_ternary(0), Values{kHuge, -kHuge, 0.0F}), (Values{kHuge, -kHuge, 0.0F}));
  EXPECT_EQ(through(*make_ternary(0), Values{kTiny, -kTiny, 0.0F}), (Values{kTiny, -kTiny, 0.0F}));
}

TEST(Ternary, WhatIsNotFiniteSpoilsItsRun) {
  for (const float bad : {kNan, kInf, -kInf}) {
    Values values(40, -2.0F);
    values[21] = bad;
    for (const double clip : {0.0, 2.5})
      for (const float out : through(*make_ternary(clip), values)) EXPECT_TRUE(std::isnan(out));
  }
}

TEST(Ternary, RefusesWhatItCannotHaveWritten) {
  Rng rng(4);
  const auto codec = make_ternary(0);
  expect_wrong_lengths_refused(*codec, 43, rng);
  const ByteVector good = encode_at(*codec, random_values(43, rng), 0);
  for (const float scale : {-1.0F, kInf}) {
    ByteVector bytes = good;
    put_float(bytes, 0, scale);
    expect_corrupt(*codec, bytes, 43);
  }
  for (std::size_t i = 4; i < good.size(); ++i) {
    for (const unsigned code : {243U, 255U}) {
      ByteVector bytes = good;
      bytes[i] = static_cast<std::byte>(code);
      expect_corrupt(*codec, bytes, 43);
    }
  }
  // Nine bytes hold 43 values. The last byte has two unused digits, and 81 sets the last of them.
  ByteVector bytes = good;
  bytes.back() = std::byte{81};
  expect_corrupt(*codec, bytes, 43);
  expect_corrupt(*codec, encode_at(*codec, random_values(3, rng), 0), 0);
}

}  // namespace
}  // namespace tally::codec
