#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernel/reduce/reduce.h"

// The rules that reduce.h states, with known answers. The reference must satisfy them as well.
namespace tally::kernel {
namespace {

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> all = {&reference_kernels()};
  for (const Level level : available_levels()) all.push_back(&kernels(level));
  return all;
}

TEST(ReduceRules, MinAndMaxKeepTheFirstOfEqualsAndPassOverLaterNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Kernels* k : all_kernels()) {
    float into[] = {nan, 1.0F, 0.0F, -0.0F, 2.0F};
    const float from[] = {1.0F, nan, -0.0F, 0.0F, -3.0F};
    k->combine(DataType::kFloat32, ReduceOp::kMin, into, from, 5);
    EXPECT_TRUE(std::isnan(into[0]));
    EXPECT_EQ(into[1], 1.0F);
    EXPECT_FALSE(std::signbit(into[2]));
    EXPECT_TRUE(std::signbit(into[3]));
    EXPECT_EQ(into[4], -3.0F);
  }
}

TEST(ReduceRules, IntegersWrapAndTruncateTowardsZero) {
  for (const Kernels* k : all_kernels()) {
    std::int8_t small[] = {127, -128, -7};
    const std::int8_t add[] = {1, -1, 0};
    k->combine(DataType::kInt8, ReduceOp::kSum, small, add, 3);
    EXPECT_EQ(small[0], -128);
    EXPECT_EQ(small[1], 127);
    k->divide(DataType::kInt8, small, 3, 2);
    EXPECT_EQ(small[2], -3);
    std::int64_t large = std::numeric_limits<std::int64_t>::max();
    const std::int64_t one = 1;
    k->combine(DataType::kInt64, ReduceOp::kSum, &large, &one, 1);
    EXPECT_EQ(large, std::numeric_limits<std::int64_t>::min());
  }
}

// 2048 + 1 + 1 is 2048 if each sum is rounded to float16, and 2050 if only the result is. The
// average is divided before rounding.
TEST(ReduceRules, HalfTypesAreRoundedOnce) {
  const std::vector<float> values = {2048.0F, 1.0F, 1.0F};
  std::vector<std::uint16_t> halves(3);
  reference_kernels().narrow(DataType::kFloat16, values.data(), halves.data(), 3);
  const std::vector<const void*> sources = {&halves[0], &halves[1], &halves[2]};
  for (const Kernels* k : all_kernels()) {
    for (const auto& [divisor, expected] : {std::pair(1, 2050.0F), std::pair(3, 683.5F)}) {
      std::uint16_t result = 0;
      const std::vector<void*> destinations = {&result};
      k->combine_many(DataType::kFloat16, ReduceOp::kSum, sources, destinations, 1, divisor);
      float value = 0;
      k->widen(DataType::kFloat16, &result, &value, 1);
      EXPECT_EQ(value, expected);
    }
  }
}

// Four ranks hold [1, 2, 3]; their average is [1, 2, 3] on every rank.
TEST(ReduceRules, AverageIsASumThatIsDivided) {
  for (const Kernels* k : all_kernels()) {
    std::vector<std::vector<float>> ranks(4, {1.0F, 2.0F, 3.0F});
    std::vector<const void*> sources;
    std::vector<void*> destinations;
    for (auto& rank : ranks) {
      sources.push_back(rank.data());
      destinations.push_back(rank.data());
    }
    k->combine_many(DataType::kFloat32, ReduceOp::kAverage, sources, destinations, 3, 4);
    for (const auto& rank : ranks) EXPECT_EQ(rank, (std::vector<float>{1.0F, 2.0F, 3.0F}));
  }
}

}  // namespace
}  // namespace tally::kernel
