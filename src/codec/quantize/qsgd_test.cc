#include "base/rng.h"
#include "codec/families.h"
#include "codec/quantize/level_codes.h"
#include "codec/quantize/stochastic_test_support.h"

namespace tally::codec {
namespace {

int levels_of(int bits) { return (1 << (bits - 1)) - 1; }

// The decoded values of qsgd, computed one by one from the definition of the format.
Values expected(const Values& values, int bits, std::size_t block, const Draw& draw) {
  const auto levels = static_cast<float>(levels_of(bits));
  Values out(values.size());
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t end = std::min(values.size(), first + block);
    float scale = 0;
    for (std::size_t i = first; i < end; ++i) scale = std::max(scale, std::fabs(values[i]));
    for (std::size_t i = first; i < end && scale > 0; ++i) {
      const float place = std::fabs(values[i]) / scale * levels;
      const float u =
          kernel::unit_of(kernel::random_bits(key_of(draw), static_cast<std::uint32_t>(i)));
      const float level = std::floor(place) + (u < place - std::floor(place) ? 1.0F : 0.0F);
      out[i] = std::copysign(level * (1 / levels) * scale, values[i]);
    }
  }
  return out;
}

TEST(Qsgd, DecodesWhatAPlainLoopRoundsTo) {
  Rng rng(1);
  for (const int bits : {2, 4, 8}) {
    for (const std::size_t block : {16, 99, 512, 2000}) {
      const auto codec = make_qsgd(bits, block);
      for (std::size_t count = 0; count <= 1000; count += block == 512 ? 1 : 37) {
        const Values values = odd_values(count, rng);
        const Draw draw = {.step = count, .first = 3};
        const ByteVector bytes = encode_at(*codec, values, count % 64, draw);
        ASSERT_EQ(bytes.size(), codec->max_bytes(count));
        ASSERT_EQ(decode_at(*codec, bytes, count, (count + 17) % 64),
                  expected(values, bits, block, draw))
            << bits << " bits, block " << block << ", " << count << " values";
      }
    }
  }
}

TEST(Qsgd, AddressesDoNotMatter) {
  Rng rng(2);
  const auto codec = make_qsgd(4, 99);
  const Values values = random_values(777, rng);
  const ByteVector wanted = encode_at(*codec, values, 0);
  for (std::size_t shift = 0; shift < 64; ++shift) {
    EXPECT_EQ(encode_at(*codec, values, shift), wanted);
    EXPECT_EQ(decode_at(*codec, wanted, 777, shift), decode_at(*codec, wanted, 777));
  }
}

TEST(Qsgd, TakesItsBitsAndAScaleForEachBlock) {
  EXPECT_EQ(make_qsgd(4, 512)->max_bytes(0), 0U);
  EXPECT_EQ(make_qsgd(4, 512)->max_bytes(65536), 128U * (4 + 256));
  EXPECT_EQ(make_qsgd(2, 128)->max_bytes(65536), 512U * (4 + 32));
  EXPECT_EQ(make_qsgd(8, 16)->max_bytes(17), 2U * 4 + 17);
  EXPECT_EQ(make_qsgd(4, 17)->max_bytes(20), 2U * 4 + 9 + 2);
  EXPECT_TRUE(make_qsgd(4, 512)->traits().unbiased);
}

// Over 1e5 draws the mean of every value is within 4 standard deviations of the value, and no
// variance exceeds (scale / levels)^2 / 4.
TEST(Qsgd, IsUnbiasedAndItsVarianceIsBounded) {
  constexpr std::uint64_t kDraws = 100000;
  const Values values = {1.0F, -1.5F, 0.01F, -0.3F, 0.75F, 0.0F, -1e-3F, 1.4999F};
  for (const int bits : {2, 4, 8}) {
    const Moments moments = moments_of(*make_qsgd(bits, 16), values, kDraws);
    const double step = 1.5 / levels_of(bits);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double variance = rounding_variance(static_cast<double>(values[i]), step);
      const double sigma = std::sqrt(variance / static_cast<double>(kDraws));
      EXPECT_NEAR(moments.means[i], static_cast<double>(values[i]), 4 * sigma + 1e-6)
          << bits << " " << i;
      EXPECT_LE(moments.variances[i], step * step / 4 * 1.001) << bits << " " << i;
      EXPECT_NEAR(moments.variances[i], variance, 0.02 * step * step) << bits << " " << i;
    }
  }
}

TEST(Qsgd, NeitherLargestNorSmallestNumbersLeaveTheirBlock) {
  for (const int bits : {2, 4, 8}) {
    const auto codec = make_qsgd(bits, 16);
    EXPECT_EQ(through(*codec, Values{kHuge, -kHuge, 0.0F}), (Values{kHuge, -kHuge, 0.0F}));
    EXPECT_EQ(through(*codec, Values{kTiny, -kTiny, 0.0F}), (Values{kTiny, -kTiny, 0.0F}));
    EXPECT_EQ(through(*codec, Values(20, -0.0F)), Values(20, 0.0F));
  }
}

TEST(Qsgd, WhatIsNotFiniteSpoilsItsBlockAndNoOther) {
  for (const float bad : {kNan, kInf, -kInf}) {
    Values values(40, -2.0F);
    values[21] = bad;
    const Values out = through(*make_qsgd(4, 16), values);
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 16 == 1) << i;
  }
}

TEST(Qsgd, DrawsOfOtherStepsRanksAndRunsDiffer) {
  Rng rng(3);
  const auto codec = make_qsgd(2, 128);
  const Values values = random_values(1000, rng);
  const ByteVector one = encode_at(*codec, values, 0, {.seed = 1});
  EXPECT_EQ(encode_at(*codec, values, 0, {.seed = 1}), one);
  for (const Draw& draw : {Draw{.seed = 2}, Draw{.step = 1}, Draw{.rank = 1}, Draw{.first = 65536}})
    EXPECT_NE(encode_at(*codec, values, 0, draw), one);
}

TEST(Qsgd, RefusesWhatItCannotHaveWritten) {
  Rng rng(4);
  for (const int bits : {2, 4, 8}) {
    const auto codec = make_qsgd(bits, 16);
    expect_wrong_lengths_refused(*codec, 45, rng);
    const ByteVector good = encode_at(*codec, Values(45, 1.0F), 0);
    for (const float scale : {-1.0F, kInf}) {
      ByteVector bytes = good;
      put_float(bytes, 1, scale);
      expect_corrupt(*codec, bytes, 45);
    }
    // Puts the unused code into each position in turn.
    for (std::size_t i = 0; i < 45; ++i) {
      const std::size_t bit = i % 16 * static_cast<std::size_t>(bits);
      const std::size_t byte = 12 + i / 16 * 2 * static_cast<std::size_t>(bits) + bit / 8;
      const unsigned mask = ((1U << bits) - 1) << (bit % 8);
      ByteVector bytes = good;
      bytes[byte] &= static_cast<std::byte>(~mask);
      bytes[byte] |= static_cast<std::byte>((1U << (bits - 1)) << (bit % 8));
      expect_corrupt(*codec, bytes, 45);
    }
    if (bits == 8) continue;
    ByteVector bytes = good;
    bytes.back() |= std::byte{0x40};  // unused bits after 13 values
    expect_corrupt(*codec, bytes, 45);
  }
}

TEST(LevelCodes, EveryLevelComesBack) {
  for (const int bits : {2, 4, 8}) {
    std::vector<std::int8_t> levels;
    for (int level = -levels_of(bits); level <= levels_of(bits); ++level)
      for (int i = 0; i < 3; ++i)
        levels.push_back(static_cast<std::int8_t>(level * (i % 2 * 2 - 1)));
    std::vector<std::byte> codes((levels.size() * static_cast<std::size_t>(bits) + 7) / 8);
    std::vector<std::int8_t> back(levels.size());
    pack_levels(levels, bits, codes.data());
    EXPECT_TRUE(unpack_levels(codes.data(), bits, back));
    EXPECT_EQ(back, levels);
  }
}

TEST(LevelCodes, EveryByteOfTritsIsReadAsItsDigits) {
  for (unsigned code = 0; code < 256; ++code) {
    std::int8_t levels[kTritPlanes] = {};
    std::int8_t* planes[kTritPlanes] = {};
    for (std::size_t p = 0; p < kTritPlanes; ++p) planes[p] = &levels[p];
    const auto byte = static_cast<std::byte>(code);
    EXPECT_EQ(unpack_trits(&byte, 1, planes), code < 243) << code;
    if (code >= 243) continue;
    unsigned rest = code;
    for (const std::int8_t level : levels) {
      EXPECT_EQ(level, rest % 3 == 2 ? -1 : static_cast<int>(rest % 3)) << code;
      rest /= 3;
    }
    std::byte back{};
    pack_trits(planes, 1, &back);
    EXPECT_EQ(back, byte);
  }
}

}  // namespace
}  // namespace tally::codec
