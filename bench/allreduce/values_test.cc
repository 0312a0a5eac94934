#include "bench/allreduce/values.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tally::bench {
namespace {

std::vector<float> sum_over_ranks(int ranks, std::size_t count) {
  std::vector<float> sum(count, 0.0F);
  std::vector<float> mine(count);
  for (Rank rank = 0; rank < ranks; ++rank) {
    fill_for_check(mine, rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += mine[i];
  }
  return sum;
}

TEST(Values, TheSumOfAllRanksIsAcceptedExactly) {
  for (const int ranks : {2, 3, 8, 64, 256}) {
    EXPECT_TRUE(compare_with_sum(sum_over_ranks(ranks, 5000), ranks).has_value()) << ranks;
  }
}

TEST(Values, AWrongElementIsFoundAndNamed) {
  std::vector<float> sum = sum_over_ranks(2, 5000);
  sum[4321] += 1;
  const auto outcome = compare_with_sum(sum, 2);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(outcome.error().message.find("4321"), std::string::npos);
}

// The check finds a rank that contributed nothing, or contributed twice, at every element.
TEST(Values, AMissingRankIsFoundAtTheFirstElement) {
  const auto outcome = compare_with_sum(sum_over_ranks(3, 100), 4);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message.find("element 0 "), std::string::npos);
}

TEST(Values, TimingValuesStayNormalFloats) {
  for (const int ranks : {2, 3, 8, 16, 17, 1024}) {
    std::vector<float> data(7);
    fill_for_timing(data);
    const int calls = calls_before_overflow(ranks);
    EXPECT_GT(calls, kWarmUpCalls) << ranks;
    for (int call = 0; call < calls; ++call) {
      for (float& value : data) value *= static_cast<float>(ranks);
    }
    for (const float value : data) EXPECT_TRUE(std::isnormal(value)) << ranks;
  }
}

}  // namespace
}  // namespace tally::bench
