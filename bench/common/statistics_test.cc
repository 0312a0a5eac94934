#include "bench/common/statistics.h"

#include <gtest/gtest.h>

namespace tally::bench {
namespace {

TEST(Statistics, MedianIsTheMiddleWhateverTheOrder) {
  EXPECT_DOUBLE_EQ(median({5, 1, 3}), 3);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Statistics, SpreadIsBetweenTheQuartiles) {
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 5}), 2);
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 1000}), 2);
  EXPECT_DOUBLE_EQ(spread({7}), 0);
}

// An all-reduce of 1 GB takes 1 s: each of two ranks sends the data once, each of many ranks almost
// twice.
TEST(Statistics, BusBandwidthCountsWhatARingMoves) {
  EXPECT_DOUBLE_EQ(bus_bandwidth(1'000'000'000, 1e6, 2), 1.0);
  EXPECT_DOUBLE_EQ(bus_bandwidth(1'000'000'000, 1e6, 4), 1.5);
}

}  // namespace
}  // namespace tally::bench
