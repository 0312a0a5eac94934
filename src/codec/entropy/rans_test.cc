#include "codec/entropy/byte_coders.h"

#include <gtest/gtest.h>

#include <numeric>

#include "codec/entropy/test_sources.h"

namespace tally::codec {
namespace {

std::uint32_t sum_of(const RansShares& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0U);
}

TEST(RansShares, SumUpAndKeepWhateverOccurs) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    ByteCounts counts{};
    const std::size_t symbols = 1 + rng.below(256);
    for (std::size_t s = 0; s < symbols; ++s)
      counts[rng.below(256)] += static_cast<std::uint32_t>(1 + rng.below(1ULL << rng.below(24)));
    const RansShares shares = rans_shares(counts);
    EXPECT_EQ(sum_of(shares), kRansTotal) << round;
    for (std::size_t s = 0; s < 256; ++s) EXPECT_EQ(shares[s] > 0, counts[s] > 0) << round;
  }
}

TEST(RansShares, AreInProportionWhereNobodyIsRare) {
  ByteCounts counts{};
  counts[3] = 1000;
  counts[7] = 3000;
  counts[200] = 12000;
  const RansShares shares = rans_shares(counts);
  EXPECT_EQ(shares[3], 256);
  EXPECT_EQ(shares[7], 768);
  EXPECT_EQ(shares[200], 3072);
}

TEST(RansShares, OfOneAmongMillionsIsOne) {
  ByteCounts counts{};
  counts[0] = 4'000'000'000U;
  for (std::size_t s = 1; s < 256; ++s) counts[s] = 1;
  const RansShares shares = rans_shares(counts);
  EXPECT_EQ(shares[0], kRansTotal - 255);
  for (std::size_t s = 1; s < 256; ++s) EXPECT_EQ(shares[s], 1);
}

TEST(Rans, BytesComeBackAtAllLengths) {
  const Distribution shares = geometric(0.7);
  for (std::size_t count = 1; count <= 1000; ++count) {
    const Bytes in = draw_bytes(shares, count, count);
    Bytes coded(2 * count + 1000);
    coded.resize(rans_encode(in, coded));
    ASSERT_GT(coded.size(), 0U);
    Bytes out(count);
    ASSERT_TRUE(rans_decode(coded, out)) << count;
    ASSERT_EQ(out, in) << count;
  }
}

// Every frequency from 1 to 4095 has a reciprocal of its own.
TEST(Rans, BytesComeBackForEveryShare) {
  for (std::uint32_t share = 1; share < kRansTotal; ++share) {
    Bytes in(kRansTotal, std::byte{9});
    std::fill_n(in.begin(), share, std::byte{200});
    Rng rng(share);
    for (std::size_t i = in.size() - 1; i > 0; --i) std::swap(in[i], in[rng.below(i + 1)]);
    Bytes coded(in.size() + 1000);
    coded.resize(rans_encode(in, coded));
    Bytes out(in.size());
    ASSERT_TRUE(rans_decode(coded, out)) << share;
    ASSERT_EQ(out, in) << share;
  }
}

struct Source {
  const char* name;
  Distribution shares;
};

TEST(Rans, SizeIsWithinOnePercentOfEntropyAndTables) {
  const Source sources[] = {{"15 levels", rounded_normal(2.2)}, {"255 levels", rounded_normal(38)},
                            {"narrow", rounded_normal(0.4)},    {"all alike", uniform_over(250)},
                            {"three", uniform_over(3)},         {"falling", geometric(0.6)}};
  for (const auto& [name, shares] : sources) {
    const Bytes in = draw_bytes(shares, 65536, 3);
    Bytes coded(in.size() + 1000);
    coded.resize(rans_encode(in, coded));
    const ByteCounts counts = count_bytes(in);
    const double tables =
        kPresenceBytes + 4 * kRansStreams + 2.0 * static_cast<double>(present(counts).size());
    const double best = entropy_bits(counts, in.size()) * static_cast<double>(in.size()) / 8;
    EXPECT_LE(static_cast<double>(coded.size()), 1.01 * best + tables) << name;
    EXPECT_GE(static_cast<double>(coded.size()), best) << name;
  }
}

TEST(Rans, OneByteRepeatedIsATableAlone) {
  const Bytes in(5000, std::byte{77});
  Bytes coded(5000);
  coded.resize(rans_encode(in, coded));
  EXPECT_EQ(coded.size(), kPresenceBytes + 2);
  Bytes out(5000);
  ASSERT_TRUE(rans_decode(coded, out));
  EXPECT_EQ(out, in);
}

TEST(Rans, WithoutRoomNothingIsWritten) {
  const Bytes in = draw_bytes(rounded_normal(38), 4000, 1);
  Bytes whole(8000);
  const std::size_t bytes = rans_encode(in, whole);
  whole.resize(bytes);
  for (std::size_t room = 0; room < bytes + 40; ++room) {
    Bytes coded(room);
    const std::size_t used = rans_encode(in, coded);
    if (room < bytes) {
      EXPECT_EQ(used, 0U) << room;
    }
    // The encoder may require room for one more word per stream.
    if (room >= bytes + 2 * kRansStreams) {
      EXPECT_EQ(used, bytes) << room;
    }
  }
}

TEST(Rans, BytesThatCannotBeItsOwnAreRefused) {
  const Bytes in = draw_bytes(rounded_normal(3), 999, 4);
  Bytes good(2000);
  good.resize(rans_encode(in, good));
  Bytes out(in.size());
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto result = rans_decode(std::span(good).first(size), out);
    ASSERT_FALSE(result) << size;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(rans_decode(longer, out));
  Bytes shares = good;
  shares[kPresenceBytes] ^= std::byte{1};
  EXPECT_FALSE(rans_decode(shares, out));
  Bytes nobody = good;
  std::fill_n(nobody.begin(), kPresenceBytes, std::byte{0});
  EXPECT_FALSE(rans_decode(nobody, out));
  Bytes fewer(in.size() - 1);
  EXPECT_FALSE(rans_decode(good, fewer));
  Bytes more(in.size() + 1);
  EXPECT_FALSE(rans_decode(good, more));
}

TEST(Rans, StatesOutOfRangeAreRefused) {
  const Bytes in = draw_bytes(uniform_over(2), 64, 4);
  Bytes good(2000);
  good.resize(rans_encode(in, good));
  Bytes out(in.size());
  const std::size_t states = kPresenceBytes + 4;
  for (const unsigned char high : {0x00, 0x80, 0xFF}) {
    Bytes bad = good;
    std::fill_n(bad.begin() + states, 4, static_cast<std::byte>(high));
    EXPECT_FALSE(rans_decode(bad, out)) << int{high};
  }
}

}  // namespace
}  // namespace tally::codec
