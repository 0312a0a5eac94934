#include "kernel/sign/sign_bits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

// Bytes that start `shift` bytes past an aligned address, between guard bytes.
class SignBitsBytes {
 public:
  SignBitsBytes(std::size_t count, std::size_t shift)
      : bytes_(count + shift + 64, std::byte{0x5A}), shift_(shift) {}
  std::byte* data() { return bytes_.data() + shift_; }
  const std::byte* data() const { return bytes_.data() + shift_; }
  friend bool operator==(const SignBitsBytes&, const SignBitsBytes&) = default;

 private:
  std::vector<std::byte> bytes_;
  std::size_t shift_;
};

SignBitsBytes random_bytes(std::size_t count, std::size_t shift, Rng& rng) {
  SignBitsBytes bytes(count, shift);
  for (std::size_t i = 0; i < count; ++i) bytes.data()[i] = static_cast<std::byte>(rng.next());
  return bytes;
}

std::string at(Level level, std::size_t count, std::size_t shift) {
  return std::string(to_string(level)) + ", " + std::to_string(count) + " values, shift " +
         std::to_string(shift);
}

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

void expect_same_bits(Level level, std::size_t count, std::size_t shift, Rng& rng) {
  const auto values = random_array<float>(count, shift % 16, rng, rng.below(2) == 0);
  const SignKernels fast = sign_kernels(level);
  const SignKernels slow = sign_reference();
  SignBitsBytes wanted((count + 7) / 8, shift), got = wanted;
  const SideSums expected = slow.sign_bits(values.data(), count, wanted.data());
  const SideSums sums = fast.sign_bits(values.data(), count, got.data());
  EXPECT_TRUE(same(sums.negative, expected.negative)) << at(level, count, shift);
  EXPECT_TRUE(same(sums.other, expected.other)) << at(level, count, shift);
  EXPECT_EQ(got, wanted) << at(level, count, shift);
  slow.zero_bits(values.data(), count, wanted.data());
  fast.zero_bits(values.data(), count, got.data());
  EXPECT_EQ(got, wanted) << at(level, count, shift);
}

TEST(SignBits, AllLevelsGiveTheBitsOfTheReference) {
  Rng rng(3);
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 1100; ++count)
      expect_same_bits(level, count, count % 64, rng);
    for (std::size_t shift = 0; shift < 64; ++shift) expect_same_bits(level, 777, shift, rng);
    expect_same_bits(level, 65536, 5, rng);
  }
}

// No addition within a lane rounds here, so the sums are exact.
TEST(SignBits, SumsOfWholeNumbersAreExact) {
  Rng rng(4);
  std::vector<float> values(5000);
  double negative = 0, other = 0;
  for (float& value : values) {
    value = static_cast<float>(rng.below(2001)) - 1000;
    (value < 0 ? negative : other) += static_cast<double>(value);
  }
  std::vector<std::byte> bits(values.size() / 8);
  for (const Level level : available_levels()) {
    const SideSums sums = sign_kernels(level).sign_bits(values.data(), values.size(), bits.data());
    EXPECT_EQ(sums.negative, negative);
    EXPECT_EQ(sums.other, other);
  }
}

void expect_same_signs(Level level, std::size_t count, std::size_t shift, Rng& rng) {
  const SignKernels fast = sign_kernels(level);
  const SignKernels slow = sign_reference();
  const SignBitsBytes signs = random_bytes((count + 7) / 8, shift, rng);
  const SignBitsBytes zeros = random_bytes((count + 7) / 8, 63 - shift, rng);
  const BitValues values = {random_value<float>(rng, true), random_value<float>(rng, true),
                            random_value<float>(rng, true)};
  for (const std::byte* const none_or_zeros :
       {static_cast<const std::byte*>(nullptr), zeros.data()}) {
    auto wanted = random_array<float>(count, shift % 16, rng);
    auto got = wanted;
    slow.add(signs.data(), none_or_zeros, count, values, wanted.data());
    fast.add(signs.data(), none_or_zeros, count, values, got.data());
    EXPECT_TRUE(got.same_as(wanted)) << at(level, count, shift);
    slow.spread(signs.data(), none_or_zeros, count, values, wanted.data());
    fast.spread(signs.data(), none_or_zeros, count, values, got.data());
    EXPECT_TRUE(got.same_as(wanted)) << at(level, count, shift);
  }
}

TEST(SignBits, AllLevelsSpreadBitsAsTheReference) {
  Rng rng(5);
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 1000; ++count)
      expect_same_signs(level, count, count % 64, rng);
    for (std::size_t shift = 0; shift < 64; ++shift) expect_same_signs(level, 333, shift, rng);
  }
}

void expect_same_majority(Level level, std::size_t voters, std::size_t bytes, Rng& rng) {
  std::vector<SignBitsBytes> bitmaps;
  std::vector<const std::byte*> pointers;
  for (std::size_t v = 0; v < voters; ++v) bitmaps.push_back(random_bytes(bytes, v % 64, rng));
  for (const SignBitsBytes& bitmap : bitmaps) pointers.push_back(bitmap.data());
  SignBitsBytes more(bytes, voters % 64), half = more, wanted_more = more, wanted_half = more;
  sign_kernels(level).majority(pointers.data(), voters, bytes, more.data(), half.data());
  sign_reference().majority(pointers.data(), voters, bytes, wanted_more.data(), wanted_half.data());
  EXPECT_EQ(more, wanted_more) << at(level, bytes, voters);
  EXPECT_EQ(half, wanted_half) << at(level, bytes, voters);
}

TEST(SignBits, MajoritiesAreThoseOfAPlainCount) {
  Rng rng(6);
  for (const Level level : available_levels()) {
    for (std::size_t voters = 0; voters <= 130; ++voters)
      for (const std::size_t bytes : {0, 1, 7, 16, 31, 32, 63, 64, 65, 200})
        expect_same_majority(level, voters, bytes, rng);
    expect_same_majority(level, 1000, 70, rng);
  }
}

TEST(SignBits, FourThousandVotersOfOneMindAreCountedToTheLast) {
  const std::vector<std::byte> yes(64, std::byte{0xFF}), no(64, std::byte{0});
  for (const Level level : available_levels()) {
    for (const std::size_t ayes : {0, 2047, 2048, 2049, 4096}) {
      std::vector<const std::byte*> bitmaps(kMaxVoters, no.data());
      std::fill_n(bitmaps.begin(), ayes, yes.data());
      std::vector<std::byte> more(64), half(64);
      sign_kernels(level).majority(bitmaps.data(), kMaxVoters, 64, more.data(), half.data());
      EXPECT_EQ(more, ayes > 2048 ? yes : no) << ayes;
      EXPECT_EQ(half, ayes == 2048 ? yes : no) << ayes;
    }
  }
}

}  // namespace
}  // namespace tally::kernel
