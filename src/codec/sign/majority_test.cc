#include "codec/families.h"
#include "codec/quantize/lowbit_test_support.h"

namespace tally::codec {
namespace {

// Values of -s, 0 or s with a different s in each block; zeros occur only if `zeros`.
Values decided(std::size_t count, std::size_t block, bool zeros, Rng& rng) {
  Values values(count);
  float scale = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % block == 0) scale = static_cast<float>(0.1 + rng.uniform());
    values[i] = zeros && rng.below(3) == 0 ? 0.0F : rng.below(2) == 0 ? scale : -scale;
  }
  return values;
}

TEST(Majority, WhatAMajorityDecidedComesBackExactly) {
  Rng rng(1);
  for (const std::size_t block : {16, 9, 512}) {
    const auto codec = make_majority(block);
    for (std::size_t count = 0; count <= 1000; ++count) {
      const Values values = decided(count, block, count % 2 == 0, rng);
      const ByteVector bytes = encode_at(*codec, values, count % 64);
      ASSERT_EQ(decode_at(*codec, bytes, count, (count + 17) % 64), values) << count;
    }
  }
}

TEST(Majority, ABitmapOfZerosIsThereOnlyIfThereAreZeros) {
  Rng rng(2);
  const auto codec = make_majority(512);
  EXPECT_EQ(encode_at(*codec, decided(1024, 512, false, rng), 0).size(), 1U + 8 + 128);
  EXPECT_EQ(encode_at(*codec, decided(1024, 512, true, rng), 0).size(), 1U + 8 + 256);
  EXPECT_EQ(codec->max_bytes(1024), 1U + 8 + 256);
  EXPECT_EQ(codec->max_bytes(0), 0U);
}

TEST(Majority, OtherValuesKeepTheirSignsOnly) {
  EXPECT_EQ(through(*make_majority(4), Values{1.0F, -2.0F, 0.0F, 0.5F}),
            (Values{2.0F, -2.0F, 0.0F, 2.0F}));
  EXPECT_EQ(through(*make_majority(4), Values{kTiny, -kTiny, kHuge, -0.0F}),
            (Values{kHuge, -kHuge, kHuge, 0.0F}));
}

TEST(Majority, WhatIsNotFiniteSpoilsItsBlockAndNoOther) {
  for (const float bad : {kNan, kInf, -kInf}) {
    Values values(40, -2.0F);
    values[21] = bad;
    values[22] = values[2] = 0;
    const Values out = through(*make_majority(16), values);
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 16 == 1) << i;
  }
}

TEST(Majority, RefusesWhatItCannotHaveWritten) {
  Rng rng(3);
  const auto codec = make_majority(16);
  expect_wrong_lengths_refused(*codec, 45, rng);
  Values values = decided(45, 16, false, rng);
  expect_corrupt(*codec, encode_at(*codec, values, 0), 0);
  values[0] = -1;
  values[1] = 0;
  // One flag byte, three scales, six bytes of signs, six bytes of zeros.
  const ByteVector good = encode_at(*codec, values, 0);
  ASSERT_EQ(good.size(), 1U + 12 + 6 + 6);
  struct Case {
    std::size_t byte;
    unsigned value;
  };
  // An unknown flag, no flag, sign and zero bits after the last value, a negative zero, and a zero
  // flag without zeros.
  for (const Case& c :
       {Case{0, 2}, Case{0, 0}, Case{18, 0x80}, Case{24, 0x80}, Case{19, 0x03}, Case{19, 0x00}}) {
    ByteVector bytes = good;
    bytes[c.byte] = static_cast<std::byte>(c.value);
    expect_corrupt(*codec, bytes, 45);
  }
  for (const float scale : {-1.0F, kInf}) {
    ByteVector bytes = good;
    std::memcpy(&bytes[5], &scale, sizeof scale);
    expect_corrupt(*codec, bytes, 45);
  }
}

}  // namespace
}  // namespace tally::codec
