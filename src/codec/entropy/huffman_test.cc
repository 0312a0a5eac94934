#include "codec/entropy/byte_coders.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>

#include "codec/entropy/test_sources.h"

namespace tally::codec {
namespace {

// The total bits of Huffman's construction without a length limit. Each merge of two subtrees costs
// one bit for every byte in them.
std::uint64_t unlimited_bits(const ByteCounts& counts) {
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap;
  for (const std::uint32_t count : counts)
    if (count > 0) heap.push(count);
  std::uint64_t bits = 0;
  while (heap.size() > 1) {
    std::uint64_t pair = heap.top();
    heap.pop();
    pair += heap.top();
    heap.pop();
    bits += pair;
    heap.push(pair);
  }
  return bits;
}

// The total bits of the best code for `counts`, which are in descending order, with lengths of at
// most `limit`. Tries all ascending lengths that fill the code exactly.
std::uint64_t best_limited_bits(const std::vector<std::uint32_t>& counts, unsigned limit,
                                std::size_t from = 0, unsigned shortest = 1,
                                std::uint64_t free = ~0ULL) {
  if (free == ~0ULL) free = 1ULL << limit;
  if (from == counts.size()) return free == 0 ? 0 : ~0ULL >> 1;
  std::uint64_t best = ~0ULL >> 1;
  for (unsigned length = shortest; length <= limit; ++length) {
    const std::uint64_t taken = 1ULL << (limit - length);
    if (taken > free) continue;
    best = std::min(best, std::uint64_t{counts[from]} * length +
                              best_limited_bits(counts, limit, from + 1, length, free - taken));
  }
  return best;
}

std::uint64_t bits_of(const ByteCounts& counts, const CodeLengths& lengths) {
  std::uint64_t bits = 0;
  for (std::size_t s = 0; s < 256; ++s) bits += std::uint64_t{counts[s]} * lengths[s];
  return bits;
}

std::uint64_t filled(const CodeLengths& lengths) {
  std::uint64_t sum = 0;
  for (const std::uint8_t length : lengths)
    if (length > 0) sum += 1ULL << (kHuffmanBits - length);
  return sum;
}

TEST(HuffmanLengths, AreAWholeCodeWithinTheLimit) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    ByteCounts counts{};
    counts[0] = counts[1] = 1;
    for (std::uint64_t n = rng.below(255); n > 0; --n)
      counts[rng.below(256)] += static_cast<std::uint32_t>(1 + rng.below(1ULL << rng.below(24)));
    const CodeLengths lengths = huffman_lengths(counts);
    EXPECT_EQ(filled(lengths), 1ULL << kHuffmanBits) << round;
    for (std::size_t s = 0; s < 256; ++s) {
      EXPECT_EQ(lengths[s] > 0, counts[s] > 0) << round;
      EXPECT_LE(lengths[s], kHuffmanBits) << round;
    }
  }
}

TEST(HuffmanLengths, AreHuffmansWhereTheLimitDoesNotBind) {
  for (const double deviation : {0.5, 1.0, 2.0}) {
    const Distribution shares = rounded_normal(deviation);
    ByteCounts counts{};
    for (std::size_t s = 0; s < 256; ++s) {
      const double count = shares[s] * 1000;
      counts[s] = count < 1 ? 0 : static_cast<std::uint32_t>(count);
    }
    EXPECT_EQ(bits_of(counts, huffman_lengths(counts)), unlimited_bits(counts)) << deviation;
  }
}

// Counts that double would otherwise get codes of 12, 13, ... bits.
TEST(HuffmanLengths, AreTheBestOfAllWithinTheLimit) {
  for (const std::size_t symbols : {13U, 14U, 15U}) {
    ByteCounts counts{};
    std::vector<std::uint32_t> falling;
    for (std::size_t s = 0; s < symbols; ++s) {
      falling.push_back(1U << (symbols - s));
      counts[17 * s] = falling.back();
    }
    ASSERT_GT(bits_of(counts, huffman_lengths(counts)), unlimited_bits(counts));
    EXPECT_EQ(bits_of(counts, huffman_lengths(counts)), best_limited_bits(falling, kHuffmanBits))
        << symbols;
  }
}

TEST(Huffman, BytesComeBackAtAllLengths) {
  const Distribution shares = geometric(0.7);
  for (std::size_t count = 1; count <= 1000; ++count) {
    const Bytes in = draw_bytes(shares, count, count);
    Bytes coded(2 * count + 1000);
    coded.resize(huffman_encode(in, coded));
    ASSERT_GT(coded.size(), 0U);
    Bytes out(count);
    ASSERT_TRUE(huffman_decode(coded, out)) << count;
    ASSERT_EQ(out, in) << count;
  }
}

TEST(Huffman, SizeIsThatOfItsCodeAndWithinOneBitOfEntropy) {
  for (const Distribution& shares : {rounded_normal(0.3), rounded_normal(2.2), rounded_normal(38),
                                     uniform_over(250), uniform_over(3), geometric(0.6)}) {
    const Bytes in = draw_bytes(shares, 65536, 3);
    Bytes coded(in.size() + 1000);
    coded.resize(huffman_encode(in, coded));
    const ByteCounts counts = count_bytes(in);
    const double tables =
        static_cast<double>(kPresenceBytes + present(counts).size() / 2 + 5 * kHuffmanStreams);
    const double best = entropy_bits(counts, in.size()) * static_cast<double>(in.size()) / 8;
    EXPECT_LE(static_cast<double>(coded.size()),
              best + static_cast<double>(in.size()) / 8 + tables);
    EXPECT_LE(static_cast<double>(coded.size()),
              1.005 * static_cast<double>(unlimited_bits(counts)) / 8 + tables);
    EXPECT_GE(static_cast<double>(coded.size()), best);
  }
}

TEST(Huffman, OneByteRepeatedIsATableAlone) {
  const Bytes in(5000, std::byte{77});
  Bytes coded(5000);
  coded.resize(huffman_encode(in, coded));
  EXPECT_EQ(coded.size(), kPresenceBytes + 1);
  Bytes out(5000);
  ASSERT_TRUE(huffman_decode(coded, out));
  EXPECT_EQ(out, in);
}

TEST(Huffman, WithoutRoomNothingIsWritten) {
  const Bytes in = draw_bytes(rounded_normal(38), 4000, 1);
  Bytes whole(8000);
  const std::size_t bytes = huffman_encode(in, whole);
  for (std::size_t room = 0; room < bytes + 40; ++room) {
    Bytes coded(room);
    const std::size_t used = huffman_encode(in, coded);
    if (room < bytes) {
      EXPECT_EQ(used, 0U) << room;
    }
    if (room >= bytes + 8 + kHuffmanStreams) {
      EXPECT_EQ(used, bytes) << room;
    }
  }
}

TEST(Huffman, BytesThatCannotBeItsOwnAreRefused) {
  const Bytes in = draw_bytes(rounded_normal(3), 999, 4);
  Bytes good(2000);
  good.resize(huffman_encode(in, good));
  Bytes out(in.size());
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto result = huffman_decode(std::span(good).first(size), out);
    ASSERT_FALSE(result) << size;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(huffman_decode(longer, out));
  for (const int flip : {1, 2, 4, 8}) {
    Bytes lengths = good;
    lengths[kPresenceBytes] ^= static_cast<std::byte>(flip);
    EXPECT_FALSE(huffman_decode(lengths, out)) << "lengths that make no whole code";
  }
  Bytes nobody = good;
  std::fill_n(nobody.begin(), kPresenceBytes, std::byte{0});
  EXPECT_FALSE(huffman_decode(nobody, out));
  Bytes parts = good;
  const std::size_t sizes = kPresenceBytes + (present(count_bytes(in)).size() + 1) / 2;
  parts[sizes + 3] = std::byte{0x7F};
  EXPECT_FALSE(huffman_decode(parts, out)) << "a part longer than all";
  Bytes fewer(in.size() - 8);
  EXPECT_FALSE(huffman_decode(good, fewer));
  Bytes more(in.size() + 8);
  EXPECT_FALSE(huffman_decode(good, more));
}

}  // namespace
}  // namespace tally::codec
