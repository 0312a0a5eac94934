#include "server/protocol/payloads.h"

#include <set>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::server {
namespace {

// Computed by hand from the published FNV-1a value of "a": 0xAF63DC4C8601EC8C.
TEST(Bodies, ATablesNumberIsItsNamesFoldedHash) {
  EXPECT_EQ(table_id("a"), (0xAF63 ^ 0xDC4C ^ 0x8601 ^ 0xEC8C));
  std::set<TableId> seen;
  for (int i = 0; i < 200'000; ++i) seen.insert(table_id("table " + std::to_string(i)));
  EXPECT_EQ(seen.count(0xFFFF), 0U);
  EXPECT_GT(seen.size(), 60'000U);
}

TEST(Bodies, SizesComeBackAndAdd) {
  const Client::Size size{
      .elements = 7, .bytes = 80, .updates = 3, .dropped = 1, .staleness = {1, 2, 3}};
  const auto back = decode_size(encode(size));
  ASSERT_TRUE(back.has_value());
  Client::Size sum{.elements = 1, .staleness = {5}};
  add(*back, sum);
  EXPECT_EQ(sum.elements, 8U);
  EXPECT_EQ(sum.bytes, 80U);
  EXPECT_EQ(sum.updates, 3U);
  EXPECT_EQ(sum.dropped, 1U);
  EXPECT_EQ(sum.staleness, (std::vector<std::uint64_t>{6, 2, 3}));
}

TEST(Bodies, EveryCutSizeIsRefused) {
  const auto whole = encode(Client::Size{.staleness = {1, 2}});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode_size(std::span(whole).first(bytes)).has_value()) << bytes;
  // One bin more than there are.
  auto more = encode(Client::Size{.staleness = std::vector<std::uint64_t>(33)});
  ASSERT_TRUE(decode_size(more).has_value());
  more[4 * sizeof(std::uint64_t)] = std::byte{34};
  more.resize(more.size() + sizeof(std::uint64_t));
  EXPECT_FALSE(decode_size(more).has_value());
}

TEST(Bodies, ValuesKeepTheirBits) {
  const std::vector<double> values = {0.1, -0.0, 1e300};
  const auto back = decode_values(encode(values));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, values);
  EXPECT_FALSE(decode_values(std::vector<std::byte>(9)).has_value());
  EXPECT_FALSE(decode_values(std::vector<std::byte>(8 * (kMaxAgreeValues + 1))).has_value());
}

TEST(Bodies, WhatIsToBeRestoredComesBackAndIsPlain) {
  const SnapshotRestoration asked{.folder = "/data/step-100", .only = {"rows", "other rows"}};
  const auto whole = encode(asked);
  const auto back = decode_restoration(whole);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->folder, asked.folder);
  EXPECT_EQ(back->only, asked.only);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode_restoration(std::span(whole).first(bytes)).has_value()) << bytes;
  for (const SnapshotRestoration& wrong :
       {SnapshotRestoration{.folder = "a\nb"}, SnapshotRestoration{.folder = "a", .only = {"\x7F"}},
        SnapshotRestoration{.folder = std::string(kMaxTextBytes + 1, 'a')}})
    EXPECT_FALSE(decode_restoration(encode(wrong)).has_value());
}

TEST(Bodies, TextFromOutsideIsShortAndPlain) {
  EXPECT_EQ(*decode_text(encode_text("/data/step-100")), "/data/step-100");
  EXPECT_FALSE(decode_text(encode_text("a\nb")).has_value());
  EXPECT_FALSE(decode_text(encode_text(std::string(kMaxTextBytes + 1, 'a'))).has_value());
}

}  // namespace
}  // namespace tally::server
