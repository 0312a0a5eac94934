#include "apps/train/loop_control.h"

#include <limits>
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

}  // namespace
}  // namespace tally::app
