#include "train/balance.h"

#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::train {
namespace {

using namespace std::chrono_literals;
using Parts = std::vector<std::uint64_t>;

TEST(BalancedParts, AreInProportionToTheSpeeds) {
  struct Row {
    std::uint64_t total;
    std::vector<double> speeds;
    Parts parts;
  };
  const std::vector<Row> rows = {
      {128, {100, 100}, {64, 64}},
      {100, {4, 1}, {80, 20}},
      {128, {1000, 250}, {102, 26}},
      {10, {1, 1, 1}, {4, 3, 3}},     // the remainder goes to the first
      {7, {2, 1, 1}, {3, 2, 2}},      // 3.5, 1.75, 1.75
      {64, {1e6, 1, 1}, {62, 1, 1}},  // nobody is left out
      {3, {1e9, 1, 1}, {1, 1, 1}},    // one each is all there is
      {90, {2, 0, 1}, {40, 30, 20}},  // a worker without a speed: the mean of the others
      {8, {0, 0}, {4, 4}},            // nobody has a speed
      {1, {5}, {1}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{} samples for {} workers", row.total, row.speeds.size()));
    EXPECT_EQ(balanced_parts(row.total, row.speeds), row.parts);
  }
}

TEST(BalancedParts, AlwaysAddUpAndLeaveNobodyOut) {
  Rng rng(17);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> speeds(1 + rng.below(9));
    for (double& speed : speeds) speed = rng.below(10) == 0 ? 0 : 1e-3 / (1e-9 + rng.uniform());
    const std::uint64_t total = speeds.size() + rng.below(500);
    const Parts parts = balanced_parts(total, speeds);
    ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}), total) << trial;
    ASSERT_GE(*std::min_element(parts.begin(), parts.end()), 1U) << trial;
    ASSERT_EQ(balanced_parts(total, speeds), parts);
  }
}

TEST(ComputeSpeed, IsAMeanThatLeavesOutTheFirstSteps) {
  ComputeSpeed speed;
  EXPECT_EQ(speed.value(), 0);
  for (int i = 0; i < 3; ++i) speed.add(10, 10s);
  EXPECT_EQ(speed.value(), 0);
  speed.add(10, 1s);
  EXPECT_DOUBLE_EQ(speed.value(), 10);
  speed.add(0, 5s);  // no samples: not a step of its own
  EXPECT_DOUBLE_EQ(speed.value(), 10);
  speed.add(20, 1s);
  EXPECT_DOUBLE_EQ(speed.value(), 12);  // (0.8 * 10 + 0.2 * 20) / 1
  for (int i = 0; i < 100; ++i) speed.add(30, 2s);
  EXPECT_NEAR(speed.value(), 15, 1e-6);
}

TEST(Balance, IsComparedAfterTenStepsAndThenAfterEveryFifty) {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; step <= 170; ++step)
    if (balances_after(step)) steps.push_back(step);
  EXPECT_THAT(steps, testing::ElementsAre(10, 60, 110, 160));
}

TEST(Balance, SmallChangesAreNotWorthIt) {
  EXPECT_FALSE(is_worth_changing(Parts{64, 64}, Parts{64, 64}));
  EXPECT_FALSE(is_worth_changing(Parts{64, 64}, Parts{67, 61}));
  EXPECT_TRUE(is_worth_changing(Parts{64, 64}, Parts{68, 60}));
  EXPECT_FALSE(is_worth_changing(Parts{2, 2}, Parts{3, 1}));
  EXPECT_TRUE(is_worth_changing(Parts{100, 4}, Parts{102, 2}));
}

// Steps that cost a fixed time beside that of their samples: the parts settle where all workers
// need the same time, and not where the samples are in proportion to the speeds of the first step.
TEST(Balance, SettlesWhereAllWorkersNeedTheSameTime) {
  const std::vector<double> factors = {1, 4, 2};
  const auto time_of = [&](std::size_t worker, std::uint64_t samples) {
    return factors[worker] * (20 + static_cast<double>(samples));
  };
  Parts parts(3, 100);
  for (int round = 0; round < 30; ++round) {
    std::vector<double> speeds;
    for (std::size_t i = 0; i < 3; ++i)
      speeds.push_back(static_cast<double>(parts[i]) / time_of(i, parts[i]));
    parts = balanced_parts(300, speeds);
  }
  EXPECT_NEAR(time_of(0, parts[0]), time_of(1, parts[1]), 5);
  EXPECT_NEAR(time_of(0, parts[0]), time_of(2, parts[2]), 5);
}

}  // namespace
}  // namespace tally::train
