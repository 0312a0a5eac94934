#include "codec/families.h"
#include "codec/quantize/lowbit_test_support.h"

namespace tally::codec {
namespace {

// The decoded values of onebit:B by definition, in double.
Values expected_bits(const Values& values, std::size_t block) {
  Values out(values.size());
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t end = std::min(values.size(), first + block);
    double sums[2] = {}, counts[2] = {};
    for (std::size_t i = first; i < end; ++i) {
      sums[values[i] < 0 ? 1 : 0] += static_cast<double>(values[i]);
      counts[values[i] < 0 ? 1 : 0] += 1;
    }
    for (std::size_t i = first; i < end; ++i) {
      const int side = values[i] < 0 ? 1 : 0;
      out[i] = static_cast<float>(sums[side] / counts[side]);
    }
  }
  return out;
}

TEST(Onebit, DecodesTheMeanOfEachSide) {
  Rng rng(1);
  for (const std::size_t block : {1, 7, 16, 147, 512, 2000}) {
    const auto codec = make_onebit(block);
    for (std::size_t count = 0; count <= 1000; count += block == 512 ? 1 : 37) {
      const Values values = odd_values(count, rng);
      const ByteVector bytes = encode_at(*codec, values, count % 64);
      const Values got = decode_at(*codec, bytes, count, (count + 17) % 64);
      const Values wanted = expected_bits(values, block);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(got[i], wanted[i], 4e-6F * std::fabs(wanted[i]) + kTiny) << block << " " << i;
    }
  }
}

TEST(Onebit, AddressesDoNotMatter) {
  Rng rng(2);
  expect_same_at_every_address(*make_onebit(147), 777, rng);
}

TEST(Onebit, TakesEightBytesAndABitForEachValueOfABlock) {
  const auto codec = make_onebit(512);
  EXPECT_EQ(codec->max_bytes(0), 0U);
  EXPECT_EQ(codec->max_bytes(512), 8U + 64);
  EXPECT_EQ(codec->max_bytes(65536), 128U * 72);
  EXPECT_EQ(make_onebit(9)->max_bytes(20), 3U * 8 + 2 + 2 + 1);
}

TEST(Onebit, ASideWithoutValuesHasMeanZero) {
  EXPECT_EQ(through(*make_onebit(4), Values{1.0F, 2.0F, 3.0F, 6.0F}), Values(4, 3.0F));
  EXPECT_EQ(through(*make_onebit(4), Values{-1.0F, -2.0F, -3.0F, -6.0F}), Values(4, -3.0F));
  EXPECT_EQ(through(*make_onebit(4), Values{-0.0F, 0.0F, -0.0F, 0.0F}), Values(4, 0.0F));
}

TEST(Onebit, ZerosBelongToTheSideThatIsNotNegative) {
  EXPECT_EQ(through(*make_onebit(4), Values{0.0F, -0.0F, -4.0F, 6.0F}),
            (Values{2.0F, 2.0F, -4.0F, 2.0F}));
}

TEST(Onebit, MeansOfTheLargestNumbersAreFinite) {
  Values values(64, -kHuge);
  std::fill_n(values.begin(), 32, kHuge);
  EXPECT_EQ(through(*make_onebit(64), values), values);
}

TEST(Onebit, WhatIsNotFiniteSpoilsItsBlockAndNoOther) {
  for (const float bad : {kNan, kInf, -kInf}) {
    Values values(40, -2.0F);
    values[21] = bad;
    const Values out = through(*make_onebit(16), values);
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 16 == 1) << i;
  }
}

TEST(Onebit, RefusesWhatItCannotHaveWritten) {
  Rng rng(3);
  const auto codec = make_onebit(16);
  expect_wrong_lengths_refused(*codec, 45, rng);
  const ByteVector good = encode_at(*codec, random_values(45, rng), 0);
  struct Case {
    std::size_t index;
    float value;
  };
  for (const Case& c : {Case{2, 1.0F}, Case{2, -kInf}, Case{2, kNan}, Case{3, -1.0F}, Case{3, kInf},
                        Case{3, kNan}}) {
    ByteVector bytes = good;
    put_float(bytes, c.index, c.value);
    expect_corrupt(*codec, bytes, 45);
  }
  ByteVector bytes = good;
  bytes.back() |= std::byte{0x80};
  expect_corrupt(*codec, bytes, 45);
}

}  // namespace
}  // namespace tally::codec
