#include "recipes/gpt/sampling.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "recipes/gpt/model.h"

namespace tally::recipes {
namespace {

// Scores whose probabilities are 1/2, 1/4 and 1/4.
const std::array kScores = {std::log(2.0F), 0.0F, 0.0F};

TEST(Pick, LandsWhereTheProbabilitiesSay) {
  const SampleOptions as_scored{.temperature = 1};
  EXPECT_EQ(pick(kScores, as_scored, 0.0), 0U);
  EXPECT_EQ(pick(kScores, as_scored, 0.49), 0U);
  EXPECT_EQ(pick(kScores, as_scored, 0.51), 1U);
  EXPECT_EQ(pick(kScores, as_scored, 0.76), 2U);
  EXPECT_EQ(pick(kScores, as_scored, std::nextafter(1.0, 0.0)), 2U);
}

TEST(Pick, LowTemperatureTakesTheBest) {
  EXPECT_EQ(pick(kScores, {.temperature = 0.01}, 0.999), 0U);
  EXPECT_EQ(pick(kScores, {.temperature = 0}, 0.999), 0U);
}

TEST(Pick, TopKLeavesTheRestOut) {
  const std::array scores = {0.0F, 3.0F, 1.0F, 2.0F};
  for (const double uniform : {0.0, 0.3, 0.6, 0.9, 0.9999}) {
    const std::size_t picked = pick(scores, {.temperature = 10, .top_k = 2}, uniform);
    EXPECT_TRUE(picked == 1 || picked == 3) << picked;
  }
  EXPECT_EQ(pick(scores, {.temperature = 10, .top_k = 1}, 0.9999), 1U);
}

TEST(Sample, IsTheSameForTheSameSeedAndGoesBeyondTheContext) {
  torch::manual_seed(6);
  Gpt model({.symbols = 20, .context = 6, .layers = 1, .heads = 2, .width = 8, .dropout = 0.3});
  const SampleOptions options{.length = 30, .temperature = 1, .seed = 5};
  const auto first = sample(model, {1, 2}, options);
  EXPECT_EQ(first.size(), 30U);
  EXPECT_EQ(sample(model, {1, 2}, options), first);
  EXPECT_NE(sample(model, {1, 2}, {.length = 30, .temperature = 1, .seed = 6}), first);
  EXPECT_TRUE(model.is_training());
}

}  // namespace
}  // namespace tally::recipes
