#include "apps/tally/linear_problem.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tally::app {
namespace {

TEST(LinearProblem, ShardsAreUnequalAndCoverEverySampleOnce) {
  for (const int size : {1, 2, 3, 7}) {
    for (const std::size_t samples : {1UL, 5UL, 10000UL}) {
      std::size_t next = 0;
      for (Rank rank = 0; rank < size; ++rank) {
        const SampleRange shard = shard_of(samples, rank, size);
        EXPECT_EQ(shard.first, next);
        next += shard.count;
      }
      EXPECT_EQ(next, samples);
    }
  }
  EXPECT_LT(shard_of(10000, 0, 2).count, shard_of(10000, 1, 2).count);
}

TEST(LinearProblem, ASampleIsTheSameInEveryShard) {
  const LinearSpec spec{.samples = 100, .features = 3, .seed = 5};
  const LinearData all = generate(spec, {.count = 100});
  const LinearData part = generate(spec, {.first = 40, .count = 20});
  for (std::size_t i = 0; i < part.samples(); ++i) {
    EXPECT_EQ(part.y[i], all.y[40 + i]);
    EXPECT_EQ(part.x[i * part.columns], all.x[(40 + i) * all.columns]);
  }
}

// y = 2 x + 1, worked by hand.
TEST(LinearProblem, LeastSquaresFindsALineThroughItsPoints) {
  const LinearData data{.columns = 2, .x = {0, 1, 1, 1, 2, 1}, .y = {1, 3, 5}};
  const auto weights = least_squares(data);
  ASSERT_TRUE(weights.has_value());
  EXPECT_NEAR((*weights)[0], 2, 1e-12);
  EXPECT_NEAR((*weights)[1], 1, 1e-12);
}

TEST(LinearProblem, LeastSquaresRefusesTooFewSamples) {
  const auto weights = least_squares(generate({.samples = 3, .features = 8}, {.count = 3}));
  ASSERT_FALSE(weights.has_value());
  EXPECT_EQ(weights.error().code, ErrorCode::kInvalid);
}

TEST(LinearProblem, GradientVanishesAtTheClosedForm) {
  const LinearData data = generate({.samples = 500, .features = 6}, {.count = 500});
  const auto weights = least_squares(data);
  ASSERT_TRUE(weights.has_value());
  std::vector<float> gradient(data.columns);
  mean_gradient(data, *weights, gradient);
  for (const float value : gradient) EXPECT_NEAR(value, 0, 1e-10);
}

TEST(LinearProblem, AnEmptyShardHasNoGradient) {
  const LinearData data = generate({.features = 2}, {.count = 0});
  std::vector<float> gradient(3, 7.0F);
  mean_gradient(data, std::vector<double>(3, 1.0), gradient);
  for (const float value : gradient) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace tally::app
