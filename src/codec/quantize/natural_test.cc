#include <gtest/gtest.h>

#include <cmath>

#include "codec/families.h"
#include "codec/quantize/quant_test_support.h"

namespace tally::codec {
namespace {

using NaturalLimits = std::numeric_limits<float>;

TEST(Natural, PowersOfTwoAreKept) {
  std::vector<float> values = {0};
  for (int exponent = -126; exponent <= 127; ++exponent)
    for (const float sign : {1.0F, -1.0F}) values.push_back(std::ldexp(sign, exponent));
  for (std::uint64_t step = 0; step < 20; ++step)
    EXPECT_EQ(round_trip(*make_natural(), values, {.step = step}), values);
}

// Includes subnormal numbers, which become 0 or the smallest normal number.
TEST(Natural, IsUnbiasedAndItsVarianceIsBounded) {
  constexpr int kDraws = 100000;
  const auto codec = make_natural();
  for (const float value : {1.5F, -1.25F, 3.9F, 1e-20F, -7e30F, 1.0000001F,
                            NaturalLimits::min() * 0.3F, -NaturalLimits::denorm_min() * 4000000}) {
    const double x = value;
    // The two neighbouring powers of two, and the probability of the upper one.
    const bool subnormal = std::fabs(value) < NaturalLimits::min();
    const double low = subnormal ? 0 : std::ldexp(1.0, std::ilogb(value));
    const double high = subnormal ? NaturalLimits::min() : 2 * low;
    const double share = (std::fabs(x) - low) / (high - low);
    double sum = 0;
    double squares = 0;
    constexpr std::size_t kAtOnce = 1000;
    for (std::uint64_t step = 0; step < kDraws / kAtOnce; ++step) {
      const auto out =
          round_trip(*codec, std::vector<float>(kAtOnce, value), {.seed = 5, .step = step});
      for (const float each : out) {
        ASSERT_TRUE(std::fabs(each) == low || std::fabs(each) == high) << value << " " << each;
        sum += each / x;
        squares += (each / x - 1) * (each / x - 1);
      }
    }
    const double variance = share * (1 - share) * (high - low) * (high - low) / (x * x);
    const double sigma = std::sqrt(variance / kDraws);
    EXPECT_NEAR(sum / kDraws, 1, 4 * sigma + 1e-12) << value;
    if (!subnormal) {
      EXPECT_LE(variance, 0.125 + 1e-12);
      EXPECT_LE(squares / kDraws, 0.125 * (1 + 4 / std::sqrt(double{kDraws}))) << value;
    }
  }
}

TEST(Natural, WhatIsNotFiniteStaysAndNothingElseBecomesSo) {
  for (std::uint64_t step = 0; step < 200; ++step) {
    const auto out = round_trip(
        *make_natural(),
        {NaturalLimits::quiet_NaN(), -NaturalLimits::quiet_NaN(), NaturalLimits::signaling_NaN(),
         NaturalLimits::infinity(), -NaturalLimits::infinity(), NaturalLimits::max(),
         NaturalLimits::lowest(), 0.0F, -0.0F, -NaturalLimits::denorm_min()},
        {.step = step});
    for (const std::size_t i : {0, 1, 2}) EXPECT_TRUE(std::isnan(out[i]));
    EXPECT_EQ(out[3], NaturalLimits::infinity());
    EXPECT_EQ(out[4], -NaturalLimits::infinity());
    EXPECT_EQ(out[5], 0x1p127F);
    EXPECT_EQ(out[6], -0x1p127F);
    EXPECT_EQ(out[7], 0);
    EXPECT_EQ(out[8], 0);
    EXPECT_TRUE(out[9] == 0 || out[9] == -NaturalLimits::min());
  }
}

TEST(Natural, TheSameDrawGivesTheSameBytesAndOthersDoNot) {
  const auto codec = make_natural();
  Rng rng(3);
  const auto values = random_values(1000, 1, rng);
  const Draw draw{.seed = 3, .step = 4, .rank = 5, .first = 6};
  const auto bytes = encoded(*codec, values, draw);
  EXPECT_EQ(encoded(*codec, values, draw), bytes);
  for (const Draw& other : {Draw{.seed = 4, .step = 4, .rank = 5, .first = 6},
                            Draw{.seed = 3, .step = 5, .rank = 5, .first = 6},
                            Draw{.seed = 3, .step = 4, .rank = 6, .first = 6},
                            Draw{.seed = 3, .step = 4, .rank = 5, .first = 7}})
    EXPECT_NE(encoded(*codec, values, other), bytes);
}

TEST(Natural, AddsAndRefusesWhatCannotBe) {
  const auto codec = make_natural();
  expect_adds_what_it_decodes(*codec, 4);
  expect_only_size(*codec, 37);
  EXPECT_EQ(codec->max_bytes(65536), 65536U + 8192U);
  auto bytes = encoded(*codec, std::vector<float>(37, 1.0F));
  std::vector<float> out(37);
  for (int bit = 5; bit < 8; ++bit) {
    auto wrong = bytes;
    wrong.back() |= std::byte{1} << bit;
    EXPECT_FALSE(codec->decode(wrong, out).has_value());
    EXPECT_FALSE(codec->decode_add(wrong, 1, out).has_value());
  }
}

}  // namespace
}  // namespace tally::codec
