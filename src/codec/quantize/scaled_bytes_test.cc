#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "codec/families.h"
#include "codec/quantize/quant_test_support.h"

namespace tally::codec {
namespace {

using ScaledBytesLimits = std::numeric_limits<float>;

struct Format {
  const char* name;
  std::unique_ptr<Codec> (*make)(std::size_t block);
  double top;
  // Half the distance between neighbours: relative to the value, and its minimum.
  double relative;
  double least;
};
const Format kFormats[] = {
    {"int8", make_int8, 127, 0, 0.5},
    {"e4m3", [](std::size_t b) { return make_fp8(plan::Fp8Format::kE4m3, b); }, 448, 0x1p-4,
     0x1p-10},
    {"e5m2", [](std::size_t b) { return make_fp8(plan::Fp8Format::kE5m2, b); }, 57344, 0x1p-3,
     0x1p-17}};

double scale_of(const std::vector<float>& values, double top) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
  return largest == 0 ? 0 : std::max(largest / top, double{ScaledBytesLimits::min()});
}

TEST(ScaledBytes, ErrorIsHalfAStepAtAnySize) {
  Rng rng(1);
  for (const Format& format : kFormats) {
    const auto codec = format.make(64);
    for (int exponent = -149; exponent <= 127; ++exponent) {
      const auto values = random_values(64, std::ldexp(1.0F, exponent), rng);
      const auto back = round_trip(*codec, values);
      const double scale = scale_of(values, format.top);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double size = std::fabs(double{values[i]});
        const double bound = std::max(size * format.relative, scale * format.least);
        ASSERT_LE(std::fabs(double{back[i]} - values[i]), bound + size * 0x1p-21 + 0x1p-150)
            << format.name << exponent;
      }
    }
  }
}

TEST(ScaledBytes, AddsWhatItDecodesAndRefusesWrongLengths) {
  for (const Format& format : kFormats) {
    for (const std::size_t block : {16, 37, 256}) {
      expect_adds_what_it_decodes(*format.make(block), block);
      expect_only_size(*format.make(block), 100);
    }
  }
}

TEST(ScaledBytes, ZerosAreZerosAndTheLargestIsKept) {
  for (const Format& format : kFormats) {
    std::vector<float> values(100, 0.0F);
    values[3] = -0.0F;
    values[40] = -6.5F;
    const auto back = round_trip(*format.make(32), values);
    for (std::size_t i = 0; i < 100; ++i)
      EXPECT_NEAR(back[i], i == 40 ? -6.5F : 0.0F, i == 40 ? 1e-6 : 0) << format.name;
  }
}

// A value that is not finite spoils its own block at any position, and no other block.
TEST(ScaledBytes, WhatIsNotFiniteIsSeen) {
  for (const Format& format : kFormats) {
    const auto codec = format.make(32);
    for (const float odd : {ScaledBytesLimits::quiet_NaN(), ScaledBytesLimits::infinity(),
                            -ScaledBytesLimits::infinity()}) {
      for (std::size_t at = 0; at < 100; ++at) {
        std::vector<float> values(100, 1.0F);
        values[at] = odd;
        const auto bytes = encoded(*codec, values);
        const auto back = decoded(*codec, bytes, 100);
        std::vector<float> sum(100, 1.0F);
        ASSERT_TRUE(codec->decode_add(bytes, 0.5F, sum).has_value());
        for (std::size_t i = 0; i < 100; ++i) {
          ASSERT_EQ(std::isnan(back[i]), i / 32 == at / 32) << format.name << at;
          ASSERT_EQ(std::isnan(sum[i]), i / 32 == at / 32) << format.name << at;
        }
      }
    }
  }
}

TEST(ScaledBytes, TakesAByteForEachValueAndFourForEachBlock) {
  for (const Format& format : kFormats) {
    const auto codec = format.make(256);
    EXPECT_TRUE(codec->traits().fixed_size);
    EXPECT_EQ(codec->max_bytes(0), 0U);
    EXPECT_EQ(codec->max_bytes(1), 5U);
    EXPECT_EQ(codec->max_bytes(256), 260U);
    EXPECT_EQ(codec->max_bytes(257), 265U);
    EXPECT_EQ(codec->max_bytes(65536), 65536U + 1024U);
  }
}

TEST(ScaledBytes, ScalesAndBytesThatNoEncodingHasAreCorrupt) {
  for (const Format& format : kFormats) {
    const auto codec = format.make(32);
    const auto good = encoded(*codec, std::vector<float>(64, 2.0F));
    std::vector<float> out(64);
    auto negative = good;
    negative[7] |= std::byte{0x80};
    auto unused = good;
    unused[50] = std::byte{0x80};
    if (format.top != 127) unused[50] = std::byte{0x7F};
    ASSERT_TRUE(codec->decode(good, out).has_value());
    for (const auto& bytes : {negative, unused}) {
      const Result<void> done = codec->decode(bytes, out);
      ASSERT_FALSE(done.has_value());
      EXPECT_EQ(done.error().code, ErrorCode::kCorrupt);
      EXPECT_FALSE(codec->decode_add(bytes, 1, out).has_value());
    }
  }
}

}  // namespace
}  // namespace tally::codec
