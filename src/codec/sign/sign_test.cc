#include "codec/families.h"
#include "codec/quantize/lowbit_test_support.h"

namespace tally::codec {
namespace {

// The decoded values of sign:B by definition, in double.
Values expected_signs(const Values& values, std::size_t block) {
  Values out(values.size());
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t end = std::min(values.size(), first + block);
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += std::fabs(static_cast<double>(values[i]));
    const auto mean = static_cast<float>(sum / static_cast<double>(end - first));
    for (std::size_t i = first; i < end; ++i) out[i] = values[i] < 0 ? -mean : mean;
  }
  return out;
}

void expect_sign_near(const Values& got, const Values& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 4e-6F * std::fabs(wanted[i]) + kTiny) << i;
}

TEST(Sign, DecodesSignsTimesTheMeanMagnitudeOfTheBlock) {
  Rng rng(1);
  for (const std::size_t block : {1, 7, 16, 100, 512, 2000}) {
    const auto codec = make_sign(block);
    for (std::size_t count = 0; count <= 1000; count += block == 512 ? 1 : 37) {
      const Values values = odd_values(count, rng);
      const ByteVector bytes = encode_at(*codec, values, count % 64);
      expect_sign_near(decode_at(*codec, bytes, count, (count + 17) % 64),
                       expected_signs(values, block));
    }
  }
}

TEST(Sign, AddressesDoNotMatter) {
  Rng rng(2);
  expect_same_at_every_address(*make_sign(100), 777, rng);
}

TEST(Sign, TakesFourBytesAndABitForEachValueOfABlock) {
  const auto codec = make_sign(512);
  EXPECT_EQ(codec->max_bytes(0), 0U);
  EXPECT_EQ(codec->max_bytes(1), 4U + 1);
  EXPECT_EQ(codec->max_bytes(512), 4U + 64);
  EXPECT_EQ(codec->max_bytes(65536), 128U * 68);
  EXPECT_EQ(make_sign(9)->max_bytes(20), 3U * 4 + 2 + 2 + 1);
  EXPECT_TRUE(codec->traits().fixed_size);
  EXPECT_FALSE(codec->traits().unbiased || codec->traits().exact);
}

TEST(Sign, ZerosArePositiveAndBlocksOfZerosAreZero) {
  EXPECT_EQ(through(*make_sign(4), Values{0.0F, -0.0F, -4.0F, 4.0F}),
            (Values{2.0F, 2.0F, -2.0F, 2.0F}));
  EXPECT_EQ(through(*make_sign(4), Values{0.0F, -0.0F, 0.0F, -0.0F}), Values(4, 0.0F));
}

TEST(Sign, TheMeanOfTheLargestNumbersIsFinite) {
  EXPECT_EQ(through(*make_sign(64), Values(64, -kHuge)), Values(64, -kHuge));
}

TEST(Sign, WhatIsNotFiniteSpoilsItsBlockAndNoOther) {
  for (const float bad : {kNan, kInf, -kInf}) {
    Values values(40, -2.0F);
    values[21] = bad;
    const Values out = through(*make_sign(16), values);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool spoilt = i / 16 == 1;
      EXPECT_EQ(std::isnan(out[i]), spoilt) << i;
      EXPECT_TRUE(spoilt || out[i] == -2.0F) << i;
    }
  }
}

TEST(Sign, RefusesWhatItCannotHaveWritten) {
  Rng rng(3);
  const auto codec = make_sign(16);
  expect_wrong_lengths_refused(*codec, 45, rng);
  const ByteVector good = encode_at(*codec, random_values(45, rng), 0);
  for (const float scale : {-1.0F, kInf, -kInf}) {
    ByteVector bytes = good;
    put_float(bytes, 1, scale);
    expect_corrupt(*codec, bytes, 45);
  }
  ByteVector bytes = good;
  bytes.back() |= std::byte{0x80};  // unused bits after 13 values
  expect_corrupt(*codec, bytes, 45);
}

TEST(Sign, RefusesBitsBehindTheEndOfAnyBlock) {
  const auto codec = make_sign(5);
  ByteVector bytes = encode_at(*codec, Values(10, 1.0F), 0);
  bytes[8] |= std::byte{0x20};
  expect_corrupt(*codec, bytes, 10);
}

}  // namespace
}  // namespace tally::codec
