#include "kernel/lowrank/factor.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

Array<float> random_values(std::size_t count, std::size_t shift, std::uint64_t seed) {
  Array<float> values(count, shift);
  Rng random(seed);
  for (std::size_t i = 0; i < count; ++i)
    values.data()[i] = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

struct Products {
  Array<float> matrix, left, right, product;
};

// Runs each kernel once on values that are not aligned.
Products run(const FactorKernels& kernels, FactorShape shape, bool with_nan) {
  const std::size_t count = shape.rows * shape.columns;
  Array<float> addend = random_values(count, 1, 1);
  if (with_nan) addend.data()[count / 2] = std::numeric_limits<float>::quiet_NaN();
  const Array<float> right = random_values(shape.columns * shape.rank, 3, 2);
  Products result{random_values(count, 2, 3), Array<float>(shape.rows * shape.rank, 1),
                  Array<float>(shape.columns * shape.rank, 2), Array<float>(count, 3)};
  kernels.project(shape, addend.data(), result.matrix.data(), right.data(), result.left.data());
  kernels.correlate(shape, result.matrix.data(), result.left.data(), result.right.data());
  kernels.multiply(shape, result.left.data(), result.right.data(), result.product.data(),
                   result.matrix.data());
  return result;
}

TEST(Factor, EveryLevelGivesTheBitsOfPlainLoopsAndTouchesNothingElse) {
  const FactorShape shapes[] = {{1, 1, 1},   {1, 4099, 1}, {33, 1, 1},   {5, 31, 2},
                                {4, 64, 3},  {7, 2048, 4}, {9, 2081, 5}, {3, 97, 6},
                                {64, 65, 7}, {70, 80, 64}, {0, 3, 2}};
  for (const FactorShape shape : shapes) {
    for (const bool with_nan : {false, true}) {
      if (with_nan && shape.rows == 0) continue;
      const Products expected = run(factor_kernels_reference(), shape, with_nan);
      for (const Level level : available_levels()) {
        SCOPED_TRACE(testing::Message() << to_string(level) << ' ' << shape.rows << 'x'
                                        << shape.columns << " rank " << shape.rank);
        const Products found = run(factor_kernels(level), shape, with_nan);
        EXPECT_TRUE(found.left.same_as(expected.left));
        EXPECT_TRUE(found.right.same_as(expected.right));
        EXPECT_TRUE(found.product.same_as(expected.product));
        EXPECT_TRUE(found.matrix.same_as(expected.matrix));
      }
    }
  }
}

TEST(Factor, ProductsAreThoseOfMatrices) {
  // (1 2; 3 4) * (1, -1), then the transposed product.
  const FactorShape shape{.rows = 2, .columns = 2, .rank = 1};
  const std::vector<float> addend = {1, 1, 1, 1};
  std::vector<float> matrix = {0, 1, 2, 3};
  const std::vector<float> right = {1, -1};
  std::vector<float> left(2), back(2), product(4);
  const FactorKernels& kernels = factor_kernels();
  kernels.project(shape, addend.data(), matrix.data(), right.data(), left.data());
  EXPECT_EQ(matrix, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(left, (std::vector<float>{-1, -1}));
  kernels.correlate(shape, matrix.data(), left.data(), back.data());
  EXPECT_EQ(back, (std::vector<float>{-4, -6}));
  kernels.multiply(shape, left.data(), back.data(), product.data(), nullptr);
  EXPECT_EQ(product, (std::vector<float>{4, 6, 4, 6}));
  EXPECT_EQ(matrix, (std::vector<float>{1, 2, 3, 4}));
  kernels.multiply(shape, left.data(), back.data(), product.data(), matrix.data());
  EXPECT_EQ(matrix, (std::vector<float>{-3, -4, -1, -2}));
}

}  // namespace
}  // namespace tally::kernel
