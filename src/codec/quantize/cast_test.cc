#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "codec/families.h"
#include "codec/quantize/quant_test_support.h"

namespace tally::codec {
namespace {

using Limits = std::numeric_limits<float>;

TEST(Plain, GivesBackEveryBit) {
  const auto codec = make_plain();
  EXPECT_TRUE(codec->traits().exact);
  Rng rng(1);
  for (std::size_t count = 0; count <= 1000; ++count) {
    std::vector<float> values(count);
    for (float& value : values)
      value = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    const auto back = round_trip(*codec, values);
    ASSERT_TRUE(count == 0 || std::memcmp(back.data(), values.data(), count * 4) == 0);
  }
}

TEST(Plain, AddsAndRefusesWrongLengths) {
  expect_adds_what_it_decodes(*make_plain(), 2);
  expect_only_size(*make_plain(), 37);
}

struct Half {
  plan::Codec kind;
  int infinity;
  double epsilon;  // half the relative distance between neighbours
};
constexpr Half kHalves[] = {{plan::Codec::kFp16, 0x7C00, 0x1p-11},
                            {plan::Codec::kBf16, 0x7F80, 0x1p-8}};

TEST(Cast, AddsAndRefusesWrongLengths) {
  for (const Half& half : kHalves) {
    expect_adds_what_it_decodes(*make_cast(half.kind), 3);
    expect_only_size(*make_cast(half.kind), 37);
  }
}

TEST(Cast, EveryHalfIsItself) {
  for (const Half& half : kHalves) {
    const auto codec = make_cast(half.kind);
    std::vector<std::byte> halves(2 * 65536);
    for (std::size_t i = 0; i < 65536; ++i) {
      halves[2 * i] = static_cast<std::byte>(i & 0xFF);
      halves[2 * i + 1] = static_cast<std::byte>(i >> 8);
    }
    const auto values = decoded(*codec, halves, 65536);
    const auto again = encoded(*codec, values);
    for (std::size_t i = 0; i < 65536; ++i) {
      const bool nan = static_cast<int>(i & 0x7FFF) > half.infinity;
      ASSERT_EQ(std::isnan(values[i]), nan);
      const bool same = again[2 * i] == halves[2 * i] && again[2 * i + 1] == halves[2 * i + 1];
      ASSERT_TRUE(same || nan) << i;
    }
  }
}

TEST(Cast, ErrorIsHalfOfTheDistanceOfNeighbours) {
  Rng rng(4);
  for (const Half& half : kHalves) {
    const auto values = random_values(10000, 1, rng);
    const auto back = round_trip(*make_cast(half.kind), values);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_LE(std::fabs(static_cast<double>(back[i]) - values[i]),
                std::fabs(values[i]) * half.epsilon + 0x1p-25);
  }
}

TEST(Cast, WhatIsNotFiniteStaysAndOnlyWhatIsBeyondTheRangeBecomesInfinite) {
  const auto fp16 = round_trip(*make_cast(plan::Codec::kFp16),
                               {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                                65519.996F, 65520, -65520, 1e-8F, -0.0F});
  EXPECT_TRUE(std::isnan(fp16[0]));
  EXPECT_EQ(fp16[1], Limits::infinity());
  EXPECT_EQ(fp16[2], -Limits::infinity());
  EXPECT_EQ(fp16[3], 65504);
  EXPECT_EQ(fp16[4], Limits::infinity());
  EXPECT_EQ(fp16[5], -Limits::infinity());
  EXPECT_EQ(fp16[6], 0);
  EXPECT_TRUE(std::signbit(fp16[7]));
  // A NaN whose payload lies in bits that bf16 does not have.
  const auto bf16 = round_trip(
      *make_cast(plan::Codec::kBf16),
      {std::bit_cast<float>(0x7F800001U), -Limits::infinity(), Limits::denorm_min(), 1e38F});
  EXPECT_TRUE(std::isnan(bf16[0]));
  EXPECT_EQ(bf16[1], -Limits::infinity());
  EXPECT_EQ(bf16[2], 0);
  EXPECT_NEAR(bf16[3] / 1e38F, 1, 0x1p-8);
}

}  // namespace
}  // namespace tally::codec
