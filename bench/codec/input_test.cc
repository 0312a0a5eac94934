#include "bench/codec/input.h"

#include <cmath>
#include <filesystem>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/tensor_file.h"
#include "codec/codec.h"

namespace tally::bench::codecs {
namespace {

// The ratio of mean magnitude to standard deviation is sqrt(2 / pi) for a normal distribution and 1
// / sqrt(2) for a Laplace distribution.
TEST(MadeInput, HasTheShapeOfItsName) {
  const std::vector<std::pair<Shape, double>> cases = {{Shape::kGaussian, 0.79788},
                                                       {Shape::kLaplace, 0.70711}};
  for (const auto& [shape, expected] : cases) {
    const Input input = made_input(shape, 1'000'000, 1);
    double magnitude = 0;
    double square = 0;
    double sum = 0;
    for (const float value : input.values) {
      magnitude += std::abs(double{value});
      square += double{value} * double{value};
      sum += double{value};
    }
    const auto count = static_cast<double>(input.values.size());
    const double deviation = std::sqrt(square / count);
    EXPECT_NEAR(deviation, 0.0004, 4e-6) << input.name;
    EXPECT_NEAR(magnitude / count / deviation, expected, 2e-3) << input.name;
    EXPECT_NEAR(sum / count, 0, 4e-6) << input.name;
    EXPECT_EQ(made_input(shape, 1'000'000, 1).values, input.values);
  }
}

TEST(MadeInput, IsOfMatricesCutIntoRuns) {
  const Input input = made_input(Shape::kGaussian, 9'000'000, 1);
  EXPECT_EQ(input.tensors.size(), 2U);
  EXPECT_EQ(input.values.size(), 2U * 2048 * 2048);
  EXPECT_EQ(runs_of(input).size(), 128U);
  const Input small = made_input(Shape::kGaussian, 300 * 300, 1);
  const auto runs = runs_of(small);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].count, codec::kRunElements);
  EXPECT_EQ(runs[1].first, codec::kRunElements);
  EXPECT_EQ(runs[1].count, 300 * 300 - codec::kRunElements);
  EXPECT_EQ(runs[1].columns, 300U);
}

// The input has the number of matrices that is closest to the requested size, and at least one.
TEST(MadeInput, HasAboutAsManyValuesAsAskedFor) {
  const std::vector<std::pair<std::size_t, std::size_t>> cases = {{1, 1},
                                                                  {3, 3},
                                                                  {8, 8},
                                                                  {10, 9},
                                                                  {90'000, 90'000},
                                                                  {4'194'304, 4'194'304},
                                                                  {6'291'455, 4'194'304},
                                                                  {6'291'456, 8'388'608},
                                                                  {8'000'000, 8'388'608},
                                                                  {8'388'608, 8'388'608}};
  for (const auto& [asked, expected] : cases)
    EXPECT_EQ(made_input(Shape::kLaplace, asked, 1).values.size(), expected) << asked;
}

TEST(RecordedInput, RepeatsWhatCodecsCompress) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     fmt::format("tally_input_test_{}.safetensors", ::getpid());
  const std::vector<float> weight(64 * 32, 0.5F);
  const std::vector<float> bias(64, 0.25F);
  ASSERT_TRUE(checkpoint::write_float_tensors(
                  file,
                  std::vector<checkpoint::FloatTensor>{{"step.1/weight", {64, 8, 4}, weight},
                                                       {"step.1/bias", {64}, bias}},
                  "pt")
                  .has_value());
  const auto input = recorded_input(file, 5000);
  std::filesystem::remove(file);
  ASSERT_TRUE(input.has_value()) << to_string(input.error());
  EXPECT_EQ(input->values, std::vector<float>(3 * 64 * 32, 0.5F));
  ASSERT_EQ(input->tensors.size(), 3U);
  EXPECT_EQ(input->tensors[1].first, 64U * 32);
  EXPECT_EQ(input->tensors[1].columns, 32U);
  EXPECT_FALSE(recorded_input(file, 5000).has_value());
}

}  // namespace
}  // namespace tally::bench::codecs
