#include "codec/conformance_test_support.h"

// A value that is not finite is visible after decoding, and so are the values next to it. Zeros and
// subnormal numbers decode correctly.
namespace tally::codec {
namespace {

class OddValues : public EveryCodec {};

TEST_P(OddValues, AreSeenAndSpoilNoMoreThanTheirBlock) {
  with_each_stage([&] {
    constexpr std::size_t kCount = 1100;
    const Values clean = normal_values(kCount, 1);
    const std::size_t block = spoiled_together(spec_, kCount);
    constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
    for (const float odd : kOdd) {
      for (const std::size_t place : {0U, 1U, 517U, 1099U}) {
        Values in = clean;
        in[place] = odd;
        const Bytes bytes = encode(*codec_, in);
        const Values out = decode(*codec_, bytes, kCount);
        EXPECT_FALSE(std::isfinite(out[place]))
            << odd << " at " << place << " became " << out[place];
        for (std::size_t i = 0; i < kCount; ++i) {
          if (i / block == place / block) continue;
          ASSERT_TRUE(std::isfinite(out[i])) << odd << " at " << place << " spoilt " << i;
        }
        Values sum(kCount, 1);
        ASSERT_TRUE(codec_->decode_add(bytes, 0.5F, sum));
        EXPECT_FALSE(std::isfinite(sum[place]));
      }
    }
  });
}

TEST_P(OddValues, InAllPlacesStayWhereTheyAre) {
  with_each_stage([&] {
    Values in(700, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < in.size(); i += 3) in[i] = std::numeric_limits<float>::infinity();
    for (const float value : there_and_back(*codec_, in)) EXPECT_FALSE(std::isfinite(value));
  });
}

TEST_P(OddValues, ZerosStayZeros) {
  with_each_stage([&] {
    for (const float zero : {0.0F, -0.0F}) {
      for (const float value : there_and_back(*codec_, Values(1500, zero))) ASSERT_EQ(value, 0.0F);
    }
  });
}

TEST_P(OddValues, ZerosAmongOthersComeBackWithinTheBound) {
  with_each_stage([&] {
    Values in = normal_values(1500, 2);
    for (std::size_t i = 0; i < in.size(); i += 2) in[i] = 0;
    const Values out = there_and_back(*codec_, in);
    expect_within_bounds(spec_, in, out);
  });
}

TEST_P(OddValues, TheSmallestNumbersComeBackWithinTheBound) {
  with_each_stage([&] {
    for (const float unit : {std::numeric_limits<float>::denorm_min(), 0x1p-140F, 0x1p-126F}) {
      Values in = normal_values(1500, 3);
      for (float& value : in) value = std::round(value * 50) * unit;
      const Values out = there_and_back(*codec_, in);
      expect_within_bounds(spec_, in, out);
    }
  });
}

// A format without such large numbers may decode them as infinity, but never as small numbers.
TEST_P(OddValues, TheLargestNumbersDoNotBecomeSmallOnes) {
  with_each_stage([&] {
    constexpr float kMost = std::numeric_limits<float>::max();
    Values in(1500);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = i % 3 == 0 ? kMost : -kMost;
    const Values out = there_and_back(*codec_, in);
    const bool may_leave_out = spec_.density > 0 && spec_.density < 1;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (may_leave_out && out[i] == 0) continue;
      ASSERT_FALSE(std::abs(out[i]) < kMost / 2) << i;
      ASSERT_TRUE(std::isnan(out[i]) || std::signbit(out[i]) == std::signbit(in[i])) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, OddValues, testing::ValuesIn(codec_texts()), codec_test_name);

}  // namespace
}  // namespace tally::codec
