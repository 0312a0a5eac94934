#include "kernel/array/weighted_sum.h"

#include <gtest/gtest.h>

#include <array>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

template <typename T>
struct Inputs {
  std::vector<Array<T>> arrays;
  std::vector<T> weights;
  std::vector<const void*> pointers() const {
    std::vector<const void*> result;
    for (const auto& array : arrays) result.push_back(array.data());
    return result;
  }
};

// Every third weight is 0. Its input is NaN, which must not reach the sum.
template <typename T>
Inputs<T> random_inputs(std::size_t inputs, std::size_t count, std::size_t shift, Rng& rng) {
  Inputs<T> result;
  for (std::size_t r = 0; r < inputs; ++r) {
    const bool skipped = r % 3 == 2;
    result.arrays.push_back(random_array<T>(count, shift, rng));
    result.weights.push_back(skipped ? T(0) : static_cast<T>(rng.uniform() + 0.1));
    for (std::size_t i = 0; skipped && i < count; ++i) {
      result.arrays.back().data()[i] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  return result;
}

template <typename T>
class WeightedSum : public ::testing::Test {};
using WeightedSumTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WeightedSum, WeightedSumTypes);

TYPED_TEST(WeightedSum, EveryLevelAndNumberOfInputsGivesTheReferencesBits) {
  using T = TypeParam;
  Rng rng(8);
  for (std::size_t inputs = 0; inputs <= 26; ++inputs) {
    for (const std::size_t count : {0, 1, 15, 64, 203, 2500}) {
      const std::size_t shift = (inputs + count) % 4;
      const auto from = random_inputs<T>(inputs, count, shift, rng);
      const std::span<const T> weights(from.weights);
      Array<T> expected(count, shift);
      weighted_sum_reference(kDataTypeOf<T>, from.pointers(), weights, expected.data(), count);
      for (const Level level : available_levels()) {
        Array<T> actual(count, shift);
        weighted_sum(kDataTypeOf<T>, from.pointers(), weights, actual.data(), count, level);
        EXPECT_TRUE(actual.same_as(expected)) << to_string(level) << " " << inputs;
      }
    }
  }
}

TYPED_TEST(WeightedSum, MayBeWrittenOverAnyOfItsInputs) {
  using T = TypeParam;
  constexpr std::size_t kCount = 1500;
  Rng rng(9);
  for (const std::size_t inputs : {1, 2, 4, 8, 17}) {
    const auto from = random_inputs<T>(inputs, kCount, 1, rng);
    const std::span<const T> weights(from.weights);
    Array<T> expected(kCount, 1);
    weighted_sum_reference(kDataTypeOf<T>, from.pointers(), weights, expected.data(), kCount);
    for (std::size_t over = 0; over < inputs; ++over) {
      auto copy = from;
      weighted_sum(kDataTypeOf<T>, copy.pointers(), weights, copy.arrays[over].data(), kCount);
      EXPECT_TRUE(copy.arrays[over].same_as(expected)) << over << " of " << inputs;
    }
  }
}

TYPED_TEST(WeightedSum, AddsInOrderAndSkipsWhatHasNoWeight) {
  using T = TypeParam;
  constexpr auto kNan = std::numeric_limits<T>::quiet_NaN();
  const std::array<T, 2> a{1, 2}, b{3, 4}, unset{kNan, kNan};
  const std::array<const void*, 3> inputs{a.data(), unset.data(), b.data()};
  std::array<T, 2> out{kNan, kNan};
  const std::array<T, 3> weights{T(0.25), T(0), T(0.75)};
  weighted_sum(kDataTypeOf<T>, inputs, std::span<const T>(weights), out.data(), 2);
  EXPECT_EQ(out, (std::array<T, 2>{T(2.5), T(3.5)}));

  const std::array<T, 3> none{};
  weighted_sum(kDataTypeOf<T>, inputs, std::span<const T>(none), out.data(), 2);
  EXPECT_EQ(out, (std::array<T, 2>{0, 0}));
}

TEST(WeightedSumOfHalves, EveryLevelGivesTheReferencesBits) {
  constexpr std::size_t kCount = 2100;
  Rng rng(10);
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    const auto values = random_inputs<float>(5, kCount, 0, rng);
    std::vector<std::vector<std::uint16_t>> halves(5, std::vector<std::uint16_t>(kCount));
    std::vector<const void*> pointers;
    for (std::size_t r = 0; r < 5; ++r) {
      reference_kernels().narrow(type, values.arrays[r].data(), halves[r].data(), kCount);
      pointers.push_back(halves[r].data());
    }
    Array<float> expected(kCount, 0);
    weighted_sum_reference(type, pointers, values.weights, expected.data(), kCount);
    for (const Level level : available_levels()) {
      Array<float> actual(kCount, 0);
      weighted_sum(type, pointers, std::span<const float>(values.weights), actual.data(), kCount,
                   level);
      EXPECT_TRUE(actual.same_as(expected)) << to_string(level);
    }
  }
}

TEST(WeightedSumOfHalves, WithoutAnyWeightIsZero) {
  const std::array<std::uint16_t, 2> unset{0x7FFF, 0x7FFF};
  const std::array<const void*, 1> inputs{unset.data()};
  const std::array<float, 1> none{};
  std::array<float, 2> out{1, 1};
  weighted_sum(DataType::kBFloat16, inputs, std::span<const float>(none), out.data(), 2);
  EXPECT_EQ(out, (std::array<float, 2>{0, 0}));
}

TYPED_TEST(WeightedSum, ClampMovesIntoTheRangeAndLeavesNan) {
  using T = TypeParam;
  Rng rng(11);
  for (const std::size_t count : {0, 1, 9, 77}) {
    const auto before = random_array<T>(count, 1, rng);
    auto expected = before;
    for (std::size_t i = 0; i < count; ++i) {
      T& value = expected.data()[i];
      if (!std::isnan(value)) value = std::fmax(T(-0.5), std::fmin(T(0.5), value));
    }
    for (const Level level : available_levels()) {
      auto actual = before;
      clamp(actual.data(), count, T(0.5), level);
      EXPECT_TRUE(actual.same_as(expected)) << to_string(level);
    }
  }
  std::array<T, 2> ends{std::numeric_limits<T>::infinity(), T(-3)};
  clamp(ends.data(), 2, T(1));
  EXPECT_EQ(ends, (std::array<T, 2>{1, -1}));
}

TYPED_TEST(WeightedSum, ScaleMultipliesEveryElement) {
  using T = TypeParam;
  Rng rng(12);
  for (const std::size_t count : {0, 1, 9, 77}) {
    const auto before = random_array<T>(count, 3, rng);
    auto expected = before;
    for (std::size_t i = 0; i < count; ++i) expected.data()[i] = before.data()[i] * T(0.3);
    for (const Level level : available_levels()) {
      auto actual = before;
      scale(actual.data(), count, T(0.3), level);
      EXPECT_TRUE(actual.same_as(expected)) << to_string(level);
    }
    auto best = before;
    scale(best.data(), count, T(0.3));
    EXPECT_TRUE(best.same_as(expected));
  }
}

TEST(Convert, ThereAndBackKeepsWhatFits) {
  const std::array<float, 4> values{0, 1.5F, -2, 1024};
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    std::array<std::uint16_t, 4> stored{};
    std::array<float, 4> back{};
    kernels().narrow(type, values.data(), stored.data(), 4);
    kernels().widen(type, stored.data(), back.data(), 4);
    EXPECT_EQ(back, values) << to_string(type);
  }
}

TEST(Convert, HalvesRoundToNearestEven) {
  // Neighbouring float16 values at 1 are 2^-10 apart; a tie rounds to even.
  const std::array<float, 3> values{1 + 0x1p-11F, 1 + 3 * 0x1p-11F, 1 + 0x1.2p-11F};
  std::array<std::uint16_t, 3> halves{};
  kernels().narrow(DataType::kFloat16, values.data(), halves.data(), 3);
  EXPECT_EQ(halves, (std::array<std::uint16_t, 3>{0x3C00, 0x3C02, 0x3C01}));
}

}  // namespace
}  // namespace tally::kernel
