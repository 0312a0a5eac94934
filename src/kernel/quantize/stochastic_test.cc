#include "kernel/quantize/stochastic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

using Levels = std::vector<std::int8_t>;

std::string at(Level level, std::size_t count) {
  return std::string(to_string(level)) + ", " + std::to_string(count) + " values";
}

StochasticRounding random_rounding(Rng& rng) {
  constexpr float kLevels[] = {1, 7, 127};
  constexpr float kScales[] = {2, 0.7F, 1e-40F, 3e38F};
  return {.scale = kScales[rng.below(4)],
          .levels = kLevels[rng.below(3)],
          .key = {.low = static_cast<std::uint32_t>(rng.next()),
                  .high = static_cast<std::uint32_t>(rng.next())},
          .first = static_cast<std::uint32_t>(rng.next())};
}

// `values` may contain infinities, which clamp to the scale. NaN has no level, so none occurs.
void expect_same_levels(Level level, std::size_t count, std::size_t shift, Rng& rng) {
  auto values = random_array<float>(count, shift % 16, rng);
  for (std::size_t i = 0; i < count; ++i)
    if (std::isnan(values.data()[i])) values.data()[i] = -3;
  const StochasticRounding rounding = random_rounding(rng);
  Levels wanted(count + shift + 64, 99), got = wanted;
  stochastic_reference().round(values.data(), count, rounding, wanted.data() + shift);
  stochastic_kernels(level).round(values.data(), count, rounding, got.data() + shift);
  EXPECT_EQ(got, wanted) << at(level, count);
  EXPECT_EQ(stochastic_kernels(level).max_magnitude(values.data(), count),
            stochastic_reference().max_magnitude(values.data(), count))
      << at(level, count);
}

TEST(StochasticRounding, AllLevelsRoundAsTheReference) {
  Rng rng(3);
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 1000; ++count)
      expect_same_levels(level, count, count % 64, rng);
    for (std::size_t shift = 0; shift < 64; ++shift) expect_same_levels(level, 333, shift, rng);
  }
}

TEST(StochasticRounding, TheLargestMagnitudeIsNanIfAnyValueIs) {
  for (const Level level : available_levels()) {
    for (std::size_t bad = 0; bad < 100; ++bad) {
      std::vector<float> values(100, -2.0F);
      values[bad] = -std::numeric_limits<float>::infinity();
      EXPECT_EQ(stochastic_kernels(level).max_magnitude(values.data(), 100), -values[bad]);
      values[bad] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(stochastic_kernels(level).max_magnitude(values.data(), 100)));
    }
  }
}

void expect_same_values(Level level, std::size_t count, std::size_t shift, Rng& rng) {
  constexpr float kWeight = 0.3F;
  Levels levels(count + shift);
  for (std::int8_t& one : levels) one = static_cast<std::int8_t>(rng.next());
  const LevelValues values = {.unit = 1.0F / 7, .scale = random_value<float>(rng, true)};
  auto wanted = random_array<float>(count, shift % 16, rng);
  auto got = wanted;
  stochastic_reference().widen(levels.data() + shift, count, values, &kWeight, wanted.data());
  stochastic_kernels(level).widen(levels.data() + shift, count, values, &kWeight, got.data());
  EXPECT_TRUE(got.same_as(wanted)) << at(level, count);
  stochastic_reference().widen(levels.data() + shift, count, values, nullptr, wanted.data());
  stochastic_kernels(level).widen(levels.data() + shift, count, values, nullptr, got.data());
  EXPECT_TRUE(got.same_as(wanted)) << at(level, count);
}

TEST(StochasticRounding, AllLevelsWidenAsTheReference) {
  Rng rng(4);
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 1000; ++count)
      expect_same_values(level, count, count % 64, rng);
    for (std::size_t shift = 0; shift < 64; ++shift) expect_same_values(level, 333, shift, rng);
  }
}

}  // namespace
}  // namespace tally::kernel
