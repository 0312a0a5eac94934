#include "server/storage/row_table.h"

#include <gtest/gtest.h>

#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "server/storage/table_spec.h"

namespace tally::server {
namespace {

// Returns one row; creates it if it is missing.
Row row_of(RowTable& table, std::uint64_t key) {
  EXPECT_TRUE(table.make_room({&key, 1}));
  Row row;
  table.find_or_make({&key, 1}, &row);
  return row;
}

TEST(RowTable, KeepsEveryKeyWhileItGrows) {
  MemoryBudget budget(0);
  RowTable table({.dimension = 2, .arrays = 1}, budget);
  std::unordered_map<std::uint64_t, float> expected;
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < 1 + rng.below(RowTable::kBatch); ++i)
      keys.push_back(rng.below(20000) << (round % 40));
    ASSERT_TRUE(table.make_room(keys));
    Row rows[RowTable::kBatch];
    table.find_or_make(keys, rows);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(rows[i].key(), keys[i]);
      ASSERT_EQ(rows[i].values()[1], expected[keys[i]]);
      rows[i].values()[1] = expected[keys[i]] = static_cast<float>(rng.below(1000));
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  for (const auto& [key, value] : expected) {
    Row row;
    table.find({&key, 1}, &row);
    ASSERT_TRUE(row.found());
    EXPECT_EQ(row.values()[1], value);
  }
  const std::uint64_t stranger = 0xFFFFFFFFFFFFFFFF;
  Row row;
  table.find({&stranger, 1}, &row);
  EXPECT_FALSE(row.found());
  EXPECT_EQ(table.missing({&stranger, 1}), 1U);
}

TEST(RowTable, AKeyThatIsThereTwiceInABatchIsOneRow) {
  MemoryBudget budget(0);
  RowTable table({}, budget);
  const std::uint64_t keys[] = {5, 5, 6, 5};
  ASSERT_TRUE(table.make_room(keys));
  Row rows[4];
  table.find_or_make(keys, rows);
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(rows[0].place(), rows[3].place());
}

// Inverts the hash, to find keys whose hashes share the first 32 bits.
std::uint64_t unmix(std::uint64_t z) {
  const auto unshift = [](std::uint64_t value, int by) {
    std::uint64_t result = value;
    for (int done = by; done < 64; done += by) result = value ^ (result >> by);
    return result;
  };
  // The inverses of mix()'s odd factors modulo 2^64, by Newton's method.
  const auto inverse = [](std::uint64_t factor) {
    std::uint64_t result = factor;
    for (int i = 0; i < 6; ++i) result *= 2 - factor * result;
    return result;
  };
  z = unshift(z, 31) * inverse(0x94D049BB133111EBULL);
  z = unshift(z, 27) * inverse(0xBF58476D1CE4E5B9ULL);
  return unshift(z, 30);
}

TEST(RowTable, KeysWithTheSameTagAreToldApart) {
  MemoryBudget budget(0);
  RowTable table({}, budget);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t low = 0; low < 100; ++low) {
    const std::uint64_t hash = 0xFFFFFFFF00000000ULL | low;
    keys.push_back(unmix(hash) - 0x9E3779B97F4A7C15ULL);
    ASSERT_EQ(hash_of_key(keys.back()), hash);
  }
  for (const std::uint64_t key : keys)
    row_of(table, key).values()[0] = static_cast<float>(key % 97);
  EXPECT_EQ(table.size(), 100U);
  Row rows[RowTable::kBatch];
  table.find(keys, rows);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(rows[i].key(), keys[i]);
    EXPECT_EQ(rows[i].values()[0], static_cast<float>(keys[i] % 97));
  }
  // A missing key with the same tag as all present keys.
  const std::uint64_t other = unmix(0xFFFFFFFF00000000ULL | 1000) - 0x9E3779B97F4A7C15ULL;
  table.find({&other, 1}, rows);
  EXPECT_FALSE(rows[0].found());
}

TEST(RowTable, WithoutMemoryItStaysAsItWas) {
  MemoryBudget budget(32 << 10);
  RowTable table({.dimension = 64}, budget);
  std::uint32_t made = 0;
  for (std::uint64_t key = 0; table.make_room({&key, 1}); ++key, ++made) {
    Row row;
    table.find_or_make({&key, 1}, &row);
  }
  EXPECT_EQ(table.size(), made);
  // 28 KiB of rows beside one page of index.
  EXPECT_GE(made, (28U << 10) / 272);
  EXPECT_LE(budget.used(), budget.limit());
  for (std::uint64_t key = 0; key < made; ++key) {
    Row row;
    table.find({&key, 1}, &row);
    ASSERT_TRUE(row.found() && row.key() == key);
  }
  table.clear();
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_EQ(table.bytes(), 0U);
}

TEST(RowTable, NewRowsHaveTheirFirstStateAndNoSteps) {
  MemoryBudget budget(0);
  RowTable table({.dimension = 3, .arrays = 3, .scale = 0, .state = 0.25F}, budget);
  const Row row = row_of(table, 9);
  EXPECT_EQ(row.steps(), 0U);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(row.values()[i], i < 3 ? 0 : 0.25F);
}

}  // namespace
}  // namespace tally::server
