#include <algorithm>
#include <vector>

#include "base/check.h"
#include "codec/entropy/byte_coders.h"

// Package-merge (Larmore, Hirschberg 1990). A code of length l is a set of l coins with the values
// 2^-1 to 2^-l, each with the weight of its symbol. The best code is the lightest set of coins
// worth symbols - 1. From the smallest value up, the lightest coins are packed in pairs and merged
// with the coins of the next value; of the largest value the 2 * (symbols - 1) lightest items are
// taken.
namespace tally::codec {
namespace {

struct Leaf {
  std::uint32_t count = 0;
  std::uint8_t symbol = 0;
};

std::vector<Leaf> sorted_leaves(const ByteCounts& counts) {
  std::vector<Leaf> leaves;
  leaves.reserve(counts.size());
  for (std::size_t s = 0; s < counts.size(); ++s)
    if (counts[s] > 0) leaves.push_back({counts[s], static_cast<std::uint8_t>(s)});
  std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.symbol < b.symbol;
  });
  return leaves;
}

// The number of leaves among the first i items of one value.
using LeavesAmong = std::array<std::uint16_t, 512>;

}  // namespace

CodeLengths huffman_lengths(const ByteCounts& counts) {
  const std::vector<Leaf> leaves = sorted_leaves(counts);
  TALLY_CHECK(leaves.size() >= 2);
  std::array<LeavesAmong, kHuffmanBits> among;
  std::array<std::uint64_t, 512> items{};
  std::array<std::uint64_t, 256> packages{};
  std::size_t package_count = 0;
  for (unsigned level = 0; level < kHuffmanBits; ++level) {
    std::size_t leaf = 0;
    std::size_t package = 0;
    std::size_t size = 0;
    among[level][0] = 0;
    while (leaf < leaves.size() || package < package_count) {
      const bool is_leaf = package == package_count ||
                           (leaf < leaves.size() && leaves[leaf].count <= packages[package]);
      items[size++] = is_leaf ? leaves[leaf++].count : packages[package++];
      among[level][size] = static_cast<std::uint16_t>(leaf);
    }
    package_count = size / 2;
    for (std::size_t i = 0; i < package_count; ++i) packages[i] = items[2 * i] + items[2 * i + 1];
  }
  CodeLengths lengths{};
  std::size_t taken = 2 * (leaves.size() - 1);
  for (unsigned level = kHuffmanBits; level-- > 0;) {
    const std::size_t taken_leaves = among[level][taken];
    for (std::size_t i = 0; i < taken_leaves; ++i) ++lengths[leaves[i].symbol];
    taken = 2 * (taken - taken_leaves);
  }
  return lengths;
}

}  // namespace tally::codec
