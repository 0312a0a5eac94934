#include "kernel/crc32c/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace tally::kernel {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next() >> 56);
  return bytes;
}

struct Known {
  Bytes bytes;
  std::uint32_t crc;
};

// From RFC 3720, B.4, and the usual check value of "123456789".
std::vector<Known> known_answers() {
  Bytes digits(9), up(32), down(32);
  std::memcpy(digits.data(), "123456789", digits.size());
  for (std::size_t i = 0; i < 32; ++i) up[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < 32; ++i) down[i] = static_cast<std::byte>(31 - i);
  return {{{}, 0},
          {digits, 0xE3069283U},
          {Bytes(32, std::byte{0}), 0x8A9136AAU},
          {Bytes(32, std::byte{0xFF}), 0x62A8AB43U},
          {up, 0x46DD794EU},
          {down, 0x113FDB5CU}};
}

TEST(Crc32c, GivesTheKnownAnswers) {
  for (const Known& known : known_answers()) {
    EXPECT_EQ(crc32c_reference(known.bytes), known.crc);
    EXPECT_EQ(crc32c(known.bytes), known.crc);
  }
}

TEST(Crc32c, AgreesWithTheReferenceAtEveryLengthAndAlignment) {
  if (!crc32c_is_accelerated()) GTEST_SKIP() << "no crc32 instruction to compare";
  const Bytes bytes = random_bytes(1100, 1);
  for (std::size_t length = 0; length <= 1000; ++length) {
    for (const std::size_t start : {0, 1, 3, 4, 7, 8, 15, 63}) {
      const auto part = std::span(bytes).subspan(start, length);
      ASSERT_EQ(crc32c(part, 17), crc32c_reference(part, 17)) << length << " from " << start;
    }
  }
}

TEST(Crc32c, AgreesWithTheReferenceOnLongInput) {
  if (!crc32c_is_accelerated()) GTEST_SKIP() << "no crc32 instruction to compare";
  const Bytes bytes = random_bytes(100'000, 2);
  Rng rng(3);
  for (int round = 0; round < 100; ++round) {
    const std::size_t start = rng.below(bytes.size());
    const auto part = std::span(bytes).subspan(start, rng.below(bytes.size() - start + 1));
    ASSERT_EQ(crc32c(part), crc32c_reference(part)) << part.size() << " from " << start;
  }
}

TEST(Crc32c, ContinuesAcrossAnySplit) {
  const Bytes bytes = random_bytes(7000, 4);
  for (const std::size_t length : {1, 200, 1000, 7000}) {
    const auto whole = std::span(bytes).first(length);
    const std::uint32_t expected = crc32c(whole);
    for (std::size_t split = 0; split <= length; split += 1 + length / 300) {
      ASSERT_EQ(crc32c(whole.subspan(split), crc32c(whole.first(split))), expected)
          << length << " split at " << split;
    }
  }
}

TEST(Crc32c, PartsCombineToTheWholeAtAnySplit) {
  const Bytes bytes = random_bytes(70'000, 5);
  for (const std::size_t length : {0, 1, 200, 7000, 70'000}) {
    const auto whole = std::span(bytes).first(length);
    const std::uint32_t expected = crc32c_reference(whole);
    for (std::size_t split = 0; split <= length; split += 1 + length / 300) {
      const auto second = whole.subspan(split);
      ASSERT_EQ(crc32c_combine(crc32c(whole.first(split)), crc32c(second), second.size()), expected)
          << length << " split at " << split;
    }
  }
}

}  // namespace
}  // namespace tally::kernel
