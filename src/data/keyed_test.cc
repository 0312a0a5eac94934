#include "data/keyed.h"

#include <cstring>

#include <gtest/gtest.h>

#include "data/test_files.h"

namespace tally::data {
namespace {

TEST(Keys, DependOnFieldAndCategoryAndAreNeverNegative) {
  EXPECT_EQ(key_of("C1", "05db9164"), key_of("C1", "05db9164"));
  EXPECT_NE(key_of("C1", "05db9164"), key_of("C2", "05db9164"));
  EXPECT_NE(key_of("C1", "2"), key_of("C12", ""));
  for (int i = 0; i < 1000; ++i) EXPECT_GE(key_of("f", std::to_string(i)), 0);
}

TEST(Keys, BucketsAreTheBitsOfACount) {
  const std::pair<double, int> cases[] = {{0, 0},   {0.5, 0},   {1, 1},     {2, 2},   {3, 2},
                                          {4, 3},   {7.9, 3},   {8, 4},     {-1, -1}, {-2, -2},
                                          {-3, -2}, {-0.5, -1}, {1e30, 100}};
  for (const auto& [count, bucket] : cases) EXPECT_EQ(log2_bucket(count), bucket) << count;
}

TEST(KeyedDataset, ShortRowsAreFilledUp) {
  KeyedRows rows{.classes = {"no", "yes"}};
  rows.add(5);
  rows.add(7, -0.25F);
  rows.end_row(true);
  rows.add_empty();
  rows.end_row(false);
  EXPECT_EQ(rows.longest(), 2U);
  const KeyedDataset dataset(rows, 3);
  EXPECT_EQ(dataset.size(), 2U);
  EXPECT_EQ(dataset.shape().input, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(dataset.classes(), (std::vector<std::string>{"no", "yes"}));
  std::vector<std::byte> input(input_bytes(dataset.shape()));
  std::vector<std::byte> target(target_bytes(dataset.shape()));
  Rng rng(1);
  ASSERT_TRUE(dataset.read(0, rng, input, target).has_value());
  std::int64_t keys[3];
  double values[3];
  std::int64_t label = 0;
  std::memcpy(keys, input.data(), sizeof keys);
  std::memcpy(values, input.data() + sizeof keys, sizeof values);
  std::memcpy(&label, target.data(), sizeof label);
  EXPECT_EQ(std::vector<std::int64_t>(keys, keys + 3), (std::vector<std::int64_t>{5, 7, -1}));
  EXPECT_EQ(std::vector<double>(values, values + 3), (std::vector<double>{1, -0.25, 0}));
  EXPECT_EQ(label, 1);
}

TEST(KeyedDataset, ChosenRowsComeInTheirOrder) {
  KeyedRows rows{.encoding = {.fields = {"a"}}, .classes = {"no", "yes"}};
  for (int i = 0; i < 4; ++i) {
    rows.add(i * 10);
    rows.end_row(i == 2);
  }
  const KeyedRows some = chosen(rows, {3, 2});
  EXPECT_EQ(some.keys, (std::vector<std::int64_t>{30, 20}));
  EXPECT_EQ(some.labels, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(some.encoding.fields, rows.encoding.fields);
}

}  // namespace
}  // namespace tally::data
