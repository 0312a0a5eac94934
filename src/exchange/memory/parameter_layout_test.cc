#include "exchange/memory/parameter_layout.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tally::exchange {
namespace {

std::vector<ParameterInfo> parameters_of(const std::vector<std::int64_t>& counts) {
  std::vector<ParameterInfo> parameters;
  for (const std::int64_t count : counts) parameters.push_back({.name = "p", .shape = {count}});
  return parameters;
}

TEST(ParameterLayout, BucketsFollowTheOrderAndCloseAtTheirSize) {
  const auto parameters = parameters_of({100, 200, 300, 400});
  const std::vector<std::size_t> order = {3, 2, 1, 0};
  const Layout layout = make_layout(parameters, order, 2000);
  ASSERT_EQ(layout.buckets.size(), 2U);
  EXPECT_EQ(layout.buckets[0].entries[0].parameter, 3U);
  EXPECT_EQ(layout.buckets[0].entries[1].parameter, 2U);
  EXPECT_EQ(layout.buckets[1].entries[0].parameter, 1U);
  EXPECT_EQ(layout.buckets[1].entries[1].parameter, 0U);
  EXPECT_EQ(layout.place_of[0].bucket, 1U);
  // 200 elements of four bytes end at 800; the next cache line begins at 832.
  EXPECT_EQ(layout.place_of[0].begin, 208U);
}

TEST(ParameterLayout, TypesDoNotShareABucket) {
  auto parameters = parameters_of({10, 10, 10});
  parameters[1].type = DataType::kFloat64;
  const std::vector<std::size_t> order = {0, 1, 2};
  const Layout layout = make_layout(parameters, order, 1 << 20);
  ASSERT_EQ(layout.buckets.size(), 2U);
  EXPECT_EQ(layout.buckets[0].entries.size(), 2U);
  EXPECT_EQ(layout.buckets[1].type, DataType::kFloat64);
  EXPECT_EQ(layout.buckets[1].offset % 4096, 0U);
}

TEST(ParameterLayout, PartsCoverTheWholeOnceAndAreCutAtBlocks) {
  for (const std::size_t count : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 20000UL, 123457UL}) {
    for (int parts = 1; parts <= 5; ++parts) {
      for (std::size_t first = 0; first < 3; ++first) {
        std::vector<int> owners(count);
        for (int index = 0; index < parts; ++index) {
          const Range part = part_of({0, count}, {.parts = parts, .index = index, .first = first});
          EXPECT_TRUE(part.empty() || part.begin % kBlock == 0);
          for (std::size_t i = part.begin; i < part.end; ++i) ++owners[i];
        }
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(owners[i], 1) << count << " " << parts;
      }
    }
  }
}

TEST(ParameterLayout, SmallBucketsFallToDifferentParts) {
  const auto owner_of = [](std::size_t bucket) {
    for (int index = 0; index < 3; ++index)
      if (!part_of({0, 100}, {.parts = 3, .index = index, .first = bucket}).empty()) return index;
    return -1;
  };
  EXPECT_NE(owner_of(0), owner_of(1));
  EXPECT_NE(owner_of(1), owner_of(2));
}

}  // namespace
}  // namespace tally::exchange
