#include "apps/train/loop_control.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::app {
namespace {

using Scores = std::vector<double>;
using Labels = std::vector<std::uint8_t>;

// Compares every pair of samples.
double auc_reference(const Scores& scores, const Labels& labels) {
  double won = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      pairs += 1;
      won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  return won / pairs;
}

TEST(Auc, OfSmallCasesIsWhatCountingGives) {
  EXPECT_EQ(auc(Scores{1, 2}, Labels{0, 1}), 1.0);
  EXPECT_EQ(auc(Scores{2, 1}, Labels{0, 1}), 0.0);
  EXPECT_EQ(auc(Scores{3, 3, 3}, Labels{0, 1, 1}), 0.5);
  EXPECT_EQ(auc(Scores{0.1, 0.4, 0.35, 0.8}, Labels{0, 0, 1, 1}), 0.75);
  EXPECT_EQ(auc(Scores{-std::numeric_limits<double>::infinity(), 0}, Labels{0, 1}), 1.0);
}

TEST(Auc, IsThatOfAllPairs) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    Scores scores;
    Labels labels{0, 1};
    const std::size_t size = 2 + rng.below(200);
    // Some seeds use few distinct scores, so that many scores are equal.
    const std::uint64_t different = 1 + rng.below(seed % 2 == 0 ? 5 : 1000000);
    while (labels.size() < size) labels.push_back(static_cast<std::uint8_t>(rng.below(2)));
    while (scores.size() < size) scores.push_back(static_cast<double>(rng.below(different)) - 3);
    const auto found = auc(scores, labels);
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(*found, auc_reference(scores, labels), 1e-12) << "seed " << seed;
  }
}

TEST(Auc, NeedsBothLabelsAndNumbers) {
  EXPECT_FALSE(auc(Scores{}, Labels{}).has_value());
  EXPECT_FALSE(auc(Scores{1, 2}, Labels{1, 1}).has_value());
  EXPECT_FALSE(auc(Scores{1, 2}, Labels{0, 0}).has_value());
  EXPECT_FALSE(auc(Scores{1, std::numeric_limits<double>::quiet_NaN()}, Labels{0, 1}).has_value());
  EXPECT_FALSE(auc(Scores{1}, Labels{0, 1}).has_value());
}

// Targets 10, 20, 60 and predictions 12, 17, 54 are given as (value - 30) / 20. By hand: the errors
// are 2, -3, -6, their squares 49; the deviations from the mean 30 are 20, 10, 30, their squares
// 1400.
TEST(RegressionScore, IsInTheUnitOfTheTarget) {
  RegressionSums sums;
  const std::vector<std::pair<double, double>> samples = {{10, 12}, {20, 17}, {60, 54}};
  for (const auto& [target, prediction] : samples) {
    const double scaled = (target - 30) / 20;
    const double error = (prediction - 30) / 20 - scaled;
    sums.squared_errors += error * error;
    sums.targets += scaled;
    sums.squared_targets += scaled * scaled;
    sums.samples += 1;
  }
  Score score;
  add_regression(sums, 20, score);
  ASSERT_TRUE(score.rmse && score.r2);
  EXPECT_NEAR(*score.rmse, std::sqrt(49.0 / 3), 1e-12);
  EXPECT_NEAR(*score.r2, 1 - 49.0 / 1400, 1e-12);
}

TEST(RegressionScore, HasNoShareOfAVarianceOfZero) {
  Score score;
  add_regression({.squared_errors = 1, .targets = 0.6, .squared_targets = 0.12, .samples = 3}, 1,
                 score);
  EXPECT_TRUE(score.rmse.has_value());
  EXPECT_FALSE(score.r2.has_value());
}

}  // namespace
}  // namespace tally::app
