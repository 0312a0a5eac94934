#include "codec/entropy/rice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace tally::codec {
namespace {

using Indices = std::vector<std::uint32_t>;

Indices random_indices(std::size_t count, double share, Rng& rng) {
  Indices indices;
  for (std::uint32_t i = 0; i < count; ++i)
    if (rng.uniform() < share) indices.push_back(i);
  return indices;
}

// The code as a string of zeros and ones, directly from its definition.
std::string code_text(const Indices& indices, unsigned parameter) {
  std::string text;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - next;
    text.append(gap >> parameter, '0');
    text.push_back('1');
    for (unsigned bit = 0; bit < parameter; ++bit)
      text.push_back((gap >> bit) % 2 != 0 ? '1' : '0');
    next = index + 1;
  }
  return text;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    for (int bit = 0; bit < 8; ++bit)
      text.push_back((std::to_integer<int>(byte) >> bit) % 2 != 0 ? '1' : '0');
  return text;
}

// Returns the chosen code.
RiceCode expect_there_and_back(const Indices& indices, std::size_t count) {
  const RiceCode code = choose_rice(indices);
  std::vector<std::byte> bytes(code.bytes());
  write_gaps(code, indices, bytes);
  std::string want = code_text(indices, code.parameter);
  EXPECT_EQ(code.bits, want.size());
  want.resize(8 * bytes.size(), '0');
  EXPECT_EQ(text_of(bytes), want);

  GapReader reader(bytes, code.parameter, count);
  for (const std::uint32_t index : indices) {
    std::size_t read = 0;
    EXPECT_TRUE(reader.next(read));
    EXPECT_EQ(read, index);
  }
  EXPECT_TRUE(reader.at_end());
  return code;
}

TEST(Rice, IndicesComeBackWhateverTheirShare) {
  Rng rng(1);
  for (std::size_t count = 0; count <= 1000; ++count)
    expect_there_and_back(random_indices(count, 0.5 * rng.uniform(), rng), count);
  for (const double share : {1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 1.0})
    expect_there_and_back(random_indices(65536, share, rng), 65536);
}

TEST(Rice, GapsOfAnySizeComeBack) {
  expect_there_and_back({0xFFFFFFFEU}, 0xFFFFFFFFU);
  expect_there_and_back({0, 0xFFFFFFFEU}, 0xFFFFFFFFU);
  // Many small gaps, and one that takes hundreds of zeros in unary.
  Indices indices(1000);
  for (std::uint32_t i = 0; i < 1000; ++i) indices[i] = i;
  indices.push_back(60000);
  expect_there_and_back(indices, 65536);
}

TEST(Rice, NoOtherParameterIsShorterForRandomIndices) {
  Rng rng(2);
  for (const double share : {3e-4, 1e-3, 0.004, 0.01, 0.03, 0.1, 0.25, 0.5, 0.8}) {
    const Indices indices = random_indices(65536, share, rng);
    const RiceCode code = choose_rice(indices);
    for (unsigned parameter = 0; parameter < 16; ++parameter)
      EXPECT_LE(code.bits, code_text(indices, parameter).size()) << share << " " << parameter;
    const double each = static_cast<double>(code.bits) / static_cast<double>(indices.size());
    // No code can be shorter than the entropy of an index.
    const double entropy = -(share * std::log2(share) + (1 - share) * std::log2(1 - share)) / share;
    EXPECT_LT(each, 1.06 * entropy + 0.3) << share;
  }
}

TEST(Rice, NeverTakesMoreThanABitmap) {
  Rng rng(3);
  for (int round = 0; round < 2000; ++round) {
    Indices indices;
    std::uint32_t next = 0;
    const std::uint64_t scale = 1 + rng.below(2000);
    while (indices.size() < 50) {
      next += static_cast<std::uint32_t>(rng.below(4) == 0 ? rng.below(scale) : 0);
      indices.push_back(next++);
    }
    EXPECT_LE(choose_rice(indices).bits, std::uint64_t{indices.back()} + 1);
  }
}

TEST(Rice, OtherBytesEndAtTheirEnd) {
  Rng rng(4);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(rng.below(40));
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(rng.below(3) == 0 ? rng.below(256) : 0);
    const std::size_t count = rng.below(5000);
    GapReader reader(bytes, static_cast<unsigned>(rng.below(kMaxRice + 1)), count);
    std::size_t index = 0;
    std::size_t least = 0;
    std::size_t read = 0;
    for (; reader.next(index); ++read) {
      ASSERT_GE(index, least);
      ASSERT_LT(index, count);
      least = index + 1;
    }
    ASSERT_LE(read, 8 * bytes.size());
  }
}

}  // namespace
}  // namespace tally::codec
