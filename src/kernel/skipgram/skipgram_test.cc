#include "kernel/skipgram/skipgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"

namespace tally::kernel {
namespace {

// Two tables of random rows, and a selection of row indices.
struct SkipgramCase {
  std::size_t stride = 0;
  std::vector<float> inputs, outputs;
  std::vector<std::size_t> input_rows, output_rows;
};

constexpr std::size_t kTableRows = 70;

SkipgramCase random_case(std::size_t dimension, std::size_t input_count, std::size_t output_count,
                         Rng& rng, double scale = 1) {
  SkipgramCase c{.stride = skipgram_stride(dimension)};
  for (auto* const table : {&c.inputs, &c.outputs}) {
    table->resize(kTableRows * c.stride);
    for (std::size_t i = 0; i < table->size(); ++i)
      if (i % c.stride < dimension)
        (*table)[i] = static_cast<float>(scale * (2 * rng.uniform() - 1));
  }
  // The same row may occur several times.
  for (std::size_t i = 0; i < input_count; ++i) c.input_rows.push_back(rng.below(kTableRows));
  for (std::size_t o = 0; o < output_count; ++o) c.output_rows.push_back(rng.below(kTableRows));
  return c;
}

struct Step {
  std::vector<float*> inputs, outputs;
  SkipgramBatch batch;
};
Step step_of(SkipgramCase& c, float rate) {
  Step step;
  for (const std::size_t row : c.input_rows) step.inputs.push_back(&c.inputs[row * c.stride]);
  for (const std::size_t row : c.output_rows) step.outputs.push_back(&c.outputs[row * c.stride]);
  step.batch = {.inputs = step.inputs.data(),
                .input_count = step.inputs.size(),
                .outputs = step.outputs.data(),
                .output_count = step.outputs.size(),
                .stride = c.stride,
                .rate = rate};
  return step;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Skipgram, AllLevelsGiveTheBitsOfTheReference) {
  Rng rng(5);
  for (const std::size_t dimension : {1, 15, 16, 17, 48, 64, 100, 112, 160, 300}) {
    for (const std::size_t inputs : {0, 1, 2, 3, 5, 6, 10, 64}) {
      for (const std::size_t outputs : {1, 2, 3, 4, 5, 6, 7, 64}) {
        SkipgramCase expected = random_case(dimension, inputs, outputs, rng);
        const SkipgramCase begin = expected;
        SkipgramGradients wanted{};
        skipgram_reference().step(step_of(expected, 0.05F).batch, wanted);
        for (const Level level : available_levels()) {
          SkipgramCase actual = begin;
          SkipgramGradients got{};
          skipgram_kernels(level).step(step_of(actual, 0.05F).batch, got);
          const std::string where = std::string(to_string(level)) + " " +
                                    std::to_string(dimension) + " " + std::to_string(inputs) + " " +
                                    std::to_string(outputs);
          EXPECT_TRUE(same_bits(actual.inputs, expected.inputs)) << where;
          EXPECT_TRUE(same_bits(actual.outputs, expected.outputs)) << where;
          EXPECT_EQ(std::memcmp(&got, &wanted, sizeof got), 0) << where;
          SkipgramGradients products{}, wanted_products{};
          skipgram_kernels(level).products(step_of(actual, 0).batch, products);
          skipgram_reference().products(step_of(actual, 0).batch, wanted_products);
          EXPECT_EQ(std::memcmp(&products, &wanted_products, sizeof products), 0) << where;
        }
      }
    }
  }
}

// The step is the gradient of the loss: a small change of any value of a row changes the loss as
// the slope predicts.
TEST(Skipgram, AStepIsTheGradientOfTheLoss) {
  Rng rng(9);
  const std::size_t dimension = 7;
  SkipgramCase c = random_case(dimension, 4, 6, rng);
  c.input_rows = {3, 8, 20, 21};
  c.output_rows = {5, 6, 7, 9, 30, 31};
  const SkipgramCase before = c;
  const auto loss = [&](const std::vector<double>& inputs, const std::vector<double>& outputs) {
    double sum = 0;
    for (const std::size_t i : c.input_rows) {
      for (std::size_t o = 0; o < c.output_rows.size(); ++o) {
        double x = 0;
        for (std::size_t d = 0; d < dimension; ++d)
          x += inputs[i * c.stride + d] * outputs[c.output_rows[o] * c.stride + d];
        sum += std::log1p(std::exp(o == 0 ? -x : x));
      }
    }
    return sum;
  };
  const float rate = 0.5F;
  SkipgramGradients gradients{};
  const Step step = step_of(c, rate);
  skipgram_kernels().step(step.batch, gradients);

  std::vector<double> inputs(before.inputs.begin(), before.inputs.end());
  std::vector<double> outputs(before.outputs.begin(), before.outputs.end());
  EXPECT_NEAR(skipgram_loss(step.batch, gradients), loss(inputs, outputs), 0.1);
  constexpr double kLittle = 1e-6;
  const auto check = [&](std::vector<double>& values, const std::vector<float>& old_values,
                         const std::vector<float>& new_values, std::size_t row) {
    for (std::size_t i = row * c.stride; i < row * c.stride + dimension; ++i) {
      values[i] += kLittle;
      const double above = loss(inputs, outputs);
      values[i] -= 2 * kLittle;
      const double below = loss(inputs, outputs);
      values[i] += kLittle;
      const double slope = (above - below) / (2 * kLittle);
      // The sigmoid table has a resolution of 0.012, so each sigmoid has an error of up to 0.003.
      EXPECT_NEAR(new_values[i] - old_values[i], -rate * slope, 0.02 * rate) << i;
    }
  };
  for (const std::size_t row : c.input_rows) check(inputs, before.inputs, c.inputs, row);
  for (const std::size_t row : c.output_rows) check(outputs, before.outputs, c.outputs, row);
}

TEST(Skipgram, RowsThatAreNotInABatchStayAsTheyAre) {
  Rng rng(11);
  SkipgramCase c = random_case(100, 6, 6, rng);
  const SkipgramCase before = c;
  SkipgramGradients gradients{};
  skipgram_kernels().step(step_of(c, 0.05F).batch, gradients);
  for (std::size_t row = 0; row < kTableRows; ++row) {
    const auto is_in = [row](const std::vector<std::size_t>& rows) {
      return std::find(rows.begin(), rows.end(), row) != rows.end();
    };
    const auto changed = [&](const std::vector<float>& a, const std::vector<float>& b) {
      return std::memcmp(a.data() + row * c.stride, b.data() + row * c.stride,
                         c.stride * sizeof(float)) != 0;
    };
    EXPECT_EQ(changed(c.inputs, before.inputs), is_in(c.input_rows)) << row;
    EXPECT_EQ(changed(c.outputs, before.outputs), is_in(c.output_rows)) << row;
  }
}

TEST(Skipgram, TheSigmoidIsThatOfTheTable) {
  for (double x = -5.99; x < 5.99; x += 0.013)
    EXPECT_NEAR(sigmoid_of(static_cast<float>(x)), 1 / (1 + std::exp(-x)), 0.0031) << x;
  EXPECT_EQ(sigmoid_of(0), 0.5F);
  EXPECT_EQ(sigmoid_of(-6.001F), 0);
  EXPECT_EQ(sigmoid_of(6), 1);
  EXPECT_EQ(sigmoid_of(1e30F), 1);
}

}  // namespace
}  // namespace tally::kernel
