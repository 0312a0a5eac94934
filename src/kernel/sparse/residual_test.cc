#include "kernel/sparse/residual.h"

#include <gtest/gtest.h>

#include <string>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

using Words = std::vector<std::uint64_t>;

// The bitmap of an array, followed by a guard word.
Words marks(const ResidualKernels& kernels, const Array<float>& array, std::size_t count,
            std::uint32_t least, std::size_t& marked) {
  Words words((count + 63) / 64 + 1, 0x5555);
  marked = kernels.mark(array.data(), count, least, words.data());
  return words;
}

TEST(Residual, EveryLevelMarksTheSameValues) {
  constexpr std::uint32_t kLeast[] = {1, 2, 0x00800000, 0x3F800000, 0x7F7FFFFF, kInfinityBits};
  Rng rng(5);
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 400; ++count) {
      const auto array = random_array<float>(count, count % 16, rng);
      for (const std::uint32_t least : kLeast) {
        SCOPED_TRACE(std::string(to_string(level)) + " " + std::to_string(count));
        std::size_t want = 0;
        std::size_t have = 0;
        const Words reference = marks(residual_reference(), array, count, least, want);
        ASSERT_EQ(marks(residual_kernels(level), array, count, least, have), reference);
        ASSERT_EQ(have, want);
      }
    }
  }
}

struct Arrays {
  Array<float> gradient, u, v;
};

void run_all(const ResidualKernels& kernels, Arrays& a, std::size_t count) {
  const MomentumFactors factors{.momentum = 0.9F, .scale = 0.7F};
  kernels.accumulate(factors, a.gradient.data(), a.u.data(), a.v.data(), count);
  kernels.clear_sent(a.gradient.data(), false, a.u.data(), a.v.data(), count);
  kernels.accumulate_nesterov(factors, a.gradient.data(), a.u.data(), a.v.data(), count);
  kernels.zero_nonfinite(a.v.data(), count);
  kernels.accumulate(factors, a.gradient.data(), a.u.data(), a.v.data(), count);
  for (std::size_t i = 0; i < count; i += 3) a.gradient.data()[i] = 0;
  kernels.clear_sent(a.gradient.data(), true, a.u.data(), a.v.data(), count);
}

TEST(Residual, EveryLevelGivesTheBitsOfTheReference) {
  Rng rng(6);
  for (const Level level : available_levels()) {
    for (std::size_t count = 0; count <= 300; ++count) {
      SCOPED_TRACE(std::string(to_string(level)) + " " + std::to_string(count));
      const std::size_t shift = count % 16;
      Arrays fast{random_array<float>(count, shift, rng), random_array<float>(count, shift, rng),
                  random_array<float>(count, shift, rng)};
      Arrays slow = fast;
      run_all(residual_kernels(level), fast, count);
      run_all(residual_reference(), slow, count);
      ASSERT_TRUE(fast.u.same_as(slow.u));
      ASSERT_TRUE(fast.v.same_as(slow.v));
    }
  }
}

TEST(Residual, SettlingLeavesOnlyNumbersInMomentum) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float sent[] = {0, 1, std::nanf(""), 0};
  float u[] = {kInfinity, 2, std::nanf(""), 3};
  float v[] = {5, 1, std::nanf(""), 7};
  residual_kernels().clear_sent(sent, false, u, v, 4);
  EXPECT_EQ(std::vector<float>(u, u + 4), (std::vector<float>{0, 2, 0, 3}));
  EXPECT_EQ(std::vector<float>(v, v + 4), (std::vector<float>{5, 0, 0, 7}));
  residual_kernels().clear_sent(sent, true, u, v, 4);
  EXPECT_EQ(std::vector<float>(u, u + 4), (std::vector<float>{0, 0, 0, 3}));
}

}  // namespace
}  // namespace tally::kernel
