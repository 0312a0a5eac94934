#include "server/client/sparse_request.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "server/storage/storage.h"

namespace tally::server {
namespace {

KeyGroups group_keys_reference(std::span<const std::uint64_t> keys, std::uint32_t parts) {
  KeyGroups groups{.begin = {0}};
  for (std::uint32_t part = 0; part < parts; ++part) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (part_of_key(keys[i], parts) == part)
        groups.order.push_back(static_cast<std::uint32_t>(i));
    }
    groups.begin.push_back(static_cast<std::uint32_t>(groups.order.size()));
  }
  return groups;
}

std::vector<std::uint64_t> drawn_keys(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t& key : keys) key = rng.next();
  return keys;
}

TEST(SparseRequest, KeysAreGroupedAsByTheReference) {
  for (const std::uint32_t parts : {1U, 4U, 12U, 400U}) {
    for (const std::size_t count : {0U, 1U, 7U, 1000U}) {
      const auto keys = drawn_keys(count, parts + count);
      const KeyGroups fast = group_keys(keys, parts);
      const KeyGroups slow = group_keys_reference(keys, parts);
      EXPECT_EQ(fast.begin, slow.begin);
      EXPECT_EQ(fast.order, slow.order);
    }
  }
}

TEST(SparseRequest, ARepeatedKeyIsFoundWhereverItStands) {
  for (const std::size_t count : {2U, 7U, 1000U}) {
    std::vector<std::uint64_t> keys = drawn_keys(count, count);
    EXPECT_FALSE(repeated_key(keys).has_value());
    keys.front() = keys.back();
    EXPECT_EQ(repeated_key(keys), keys.back());
    std::sort(keys.begin(), keys.end());
    EXPECT_TRUE(repeated_key(keys).has_value());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    EXPECT_FALSE(repeated_key(keys).has_value());
  }
}

// Plays a server that stores rows in a map. Rows return in the order of the keys in each payload.
void answer(const SparseRequest& request, std::uint32_t parts, std::uint32_t dimension,
            std::map<std::uint64_t, std::vector<float>>& table) {
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::span<const std::byte> payload = request.payload(part);
    std::uint32_t count = 0;
    std::memcpy(&count, payload.data(), sizeof(count));
    ASSERT_EQ(payload.size(), 8 + count * (8 + 4 * dimension));
    ASSERT_EQ(request.reply(part).size(), count * 4 * dimension);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t key = 0;
      std::memcpy(&key, payload.data() + 8 + 8 * i, sizeof(key));
      EXPECT_EQ(part_of_key(key, parts), part);
      std::vector<float> row(dimension);
      const std::size_t row_bytes = 4 * dimension;
      std::memcpy(row.data(), payload.data() + 8 + 8 * count + i * row_bytes, row_bytes);
      table[key] = row;
      std::memcpy(request.reply(part).data() + i * row_bytes, row.data(), row_bytes);
    }
  }
}

TEST(SparseRequest, RowsComeBackToTheirKeys) {
  for (const std::uint32_t dimension : {1U, 5U}) {
    const auto keys = drawn_keys(300, dimension);
    std::vector<float> rows(keys.size() * dimension);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
    SparseRequest request({.parts = 8, .dimension = dimension, .pushes = true, .pulls = true},
                          keys);
    std::vector<std::byte> memory(request.bytes());
    request.lay_out(keys, rows, memory);
    std::map<std::uint64_t, std::vector<float>> table;
    answer(request, 8, dimension, table);
    EXPECT_EQ(table.size(), keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(table[keys[i]].front(), static_cast<float>(i * dimension));
    std::vector<float> back(rows.size());
    request.scatter(back);
    EXPECT_EQ(back, rows);
  }
}

}  // namespace
}  // namespace tally::server
