#include "kernel/array/norm.h"

#include <gtest/gtest.h>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

template <typename T>
class Norm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Norm, Types);

TYPED_TEST(Norm, EveryLevelCountAndAlignmentGivesTheReferencesBits) {
  Rng rng(7);
  for (std::size_t count = 0; count < 150; ++count) {
    const auto values = random_array<TypeParam>(count, count % 5, rng, false);
    const std::span<const TypeParam> span(values.data(), count);
    const double expected = square_sum_reference(span);
    EXPECT_EQ(square_sum(span), expected);
    for (const Level level : available_levels()) {
      EXPECT_EQ(square_sum(span, level), expected) << to_string(level) << " " << count;
    }
  }
}

TYPED_TEST(Norm, OneToNGivesTheClosedForm) {
  for (const std::uint64_t n : {0U, 1U, 31U, 32U, 33U, 1000U, 4095U}) {
    std::vector<TypeParam> values;
    for (std::uint64_t i = 1; i <= n; ++i) values.push_back(static_cast<TypeParam>(i));
    const std::span<const TypeParam> span(values);
    // All sums are integers below 2^53 and therefore exact.
    EXPECT_EQ(square_sum(span), static_cast<double>(n * (n + 1) * (2 * n + 1) / 6)) << n;
  }
}

TYPED_TEST(Norm, LargeFloatsDoNotOverflowAndNanShows) {
  std::vector<TypeParam> values(100, TypeParam(3e38));
  EXPECT_NEAR(square_sum(std::span<const TypeParam>(values)) / 9e78, 1, 1e-6);
  values[77] = std::numeric_limits<TypeParam>::quiet_NaN();
  for (const Level level : available_levels()) {
    EXPECT_TRUE(std::isnan(square_sum(std::span<const TypeParam>(values), level)));
  }
}

}  // namespace
}  // namespace tally::kernel
