#include "recipes/linear/problem.h"

#include <array>

#include <gtest/gtest.h>

namespace tally::recipes {
namespace {

struct Sample {
  std::vector<float> x;
  float y = 0;
  friend bool operator==(const Sample&, const Sample&) = default;
};

Sample sample_of(const data::Dataset& dataset, std::uint64_t index) {
  Sample sample{.x = std::vector<float>(static_cast<std::size_t>(dataset.shape().input[0]))};
  Rng unused(0);
  EXPECT_TRUE(dataset.read(index, unused, std::as_writable_bytes(std::span<float>(sample.x)),
                           std::as_writable_bytes(std::span<float>(&sample.y, 1))));
  return sample;
}

TEST(LinearSamples, ASampleIsTheSameInEveryPart) {
  const LinearSpec spec{.features = 3, .seed = 5};
  const LinearSamples all(spec, {.count = 100});
  const LinearSamples part(spec, {.first = 40, .count = 20});
  ASSERT_EQ(part.size(), 20U);
  for (std::uint64_t i = 0; i < part.size(); ++i)
    EXPECT_EQ(sample_of(part, i), sample_of(all, 40 + i));
}

// Points on the line y = 2 x + 1.
class Line final : public data::Dataset {
 public:
  std::uint64_t size() const override { return 3; }
  const data::SampleShape& shape() const override { return shape_; }
  Result<void> read(std::uint64_t index, Rng& /*augment*/, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    const std::array<float, 2> values = {static_cast<float>(index),
                                         2 * static_cast<float>(index) + 1};
    std::memcpy(input.data(), &values[0], sizeof(float));
    std::memcpy(target.data(), &values[1], sizeof(float));
    return {};
  }

 private:
  const data::SampleShape shape_{.input = {1}, .target_type = DataType::kFloat32};
};

TEST(LeastSquares, FindsALineThroughItsPoints) {
  const auto weights = least_squares(Line());
  ASSERT_TRUE(weights.has_value());
  EXPECT_NEAR((*weights)[0], 2, 1e-12);
  EXPECT_NEAR((*weights)[1], 1, 1e-12);
}

TEST(LeastSquares, RefusesTooFewSamples) {
  const auto weights = least_squares(LinearSamples({.features = 8}, {.count = 3}));
  ASSERT_FALSE(weights.has_value());
  EXPECT_EQ(weights.error().code, ErrorCode::kInvalid);
}

// At the solution the residuals are orthogonal to every feature and sum to zero.
TEST(LeastSquares, LeavesErrorsThatNoWeightCouldLessen) {
  const LinearSamples samples({.features = 6}, {.count = 500});
  const auto weights = least_squares(samples);
  ASSERT_TRUE(weights.has_value());
  std::vector<double> gradient(7, 0.0);
  for (std::uint64_t i = 0; i < samples.size(); ++i) {
    const Sample sample = sample_of(samples, i);
    double error = weights->back() - sample.y;
    for (std::size_t k = 0; k < 6; ++k) error += (*weights)[k] * sample.x[k];
    for (std::size_t k = 0; k < 6; ++k) gradient[k] += error * sample.x[k];
    gradient[6] += error;
  }
  for (const double value : gradient) EXPECT_NEAR(value, 0, 1e-9);
}

}  // namespace
}  // namespace tally::recipes
