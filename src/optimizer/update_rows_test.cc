#include "optimizer/update_rows.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tally::optimizer {
namespace {

std::vector<OptimizerSpec> specs() {
  OptimizerSpec frozen = adam();
  frozen.freeze_after = 20;
  return {frozen,
          sgd({.weight_decay = 0.01}),
          sgd({.momentum = 0.9}),
          sgd({.momentum = 0.9, .dampening = 0.3}),
          sgd({.momentum = 0.9, .nesterov = true}),
          adagrad({.initial_accumulator = 0.1}),
          adagrad({.rate_decay = 0.1}),
          adam(),
          adamw({.weight_decay = 0.1}),
          ftrl({.l1 = 0.1})};
}

struct Rows {
  std::vector<float> values, gradient, first, second;
  Segment<float> part(const OptimizerSpec& spec, std::size_t begin, std::size_t count) {
    Segment<float> segment{
        std::span(values).subspan(begin, count), std::span(gradient).subspan(begin, count), {}};
    if (state_arrays(spec) > 0) segment.state[0] = std::span(first).subspan(begin, count);
    if (state_arrays(spec) > 1) segment.state[1] = std::span(second).subspan(begin, count);
    return segment;
  }
};

Rows random_rows(std::size_t count, Rng& rng) {
  Rows rows;
  for (auto* const array : {&rows.values, &rows.gradient, &rows.first, &rows.second}) {
    for (std::size_t i = 0; i < count; ++i)
      array->push_back(static_cast<float>(2 * rng.uniform() - 1));
  }
  for (float& value : rows.second) value = std::abs(value);
  for (float& value : rows.first) value = std::abs(value);  // adagrad's sum of squares
  return rows;
}

TEST(RowUpdate, GivesEachRowTheBitsOfItsOwnStep) {
  for (const OptimizerSpec& spec : specs()) {
    for (const std::size_t width : {1, 3, 31, 32, 64}) {
      Rng rng(width);
      RowUpdate update_rows(spec, width);
      for (const std::size_t count : {0, 1, 2, 37}) {
        std::vector<std::uint32_t> steps;
        // First steps, early steps, and some beyond the cached bias corrections.
        for (std::size_t r = 0; r < count; ++r)
          steps.push_back(static_cast<std::uint32_t>(1 + rng.below(r % 3 == 0   ? 1
                                                                   : r % 3 == 1 ? 50
                                                                                : 100'000)));
        Rows expected = random_rows(count * width, rng);
        Rows actual = expected;
        for (std::size_t r = 0; r < count; ++r)
          update(spec, {.step = steps[r], .rate = 0.05}, expected.part(spec, r * width, width));
        update_rows.run(0.05, steps, actual.part(spec, 0, count * width));
        EXPECT_EQ(actual.values, expected.values) << to_string(spec) << " " << width;
        EXPECT_EQ(actual.first, expected.first) << to_string(spec) << " " << width;
        EXPECT_EQ(actual.second, expected.second) << to_string(spec) << " " << width;
      }
    }
  }
}

}  // namespace
}  // namespace tally::optimizer
