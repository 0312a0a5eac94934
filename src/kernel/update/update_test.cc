#include "kernel/update/update.h"

#include <gtest/gtest.h>

#include <string>

#include "kernel/array/array_test_support.h"

namespace tally::kernel {
namespace {

// The arrays that all kernels use.
template <typename T>
struct UpdateArrays {
  Array<T> parameters, gradient, first, second;
};

template <typename T>
UpdateArrays<T> random_arrays(std::size_t count, std::size_t shift, Rng& rng) {
  UpdateArrays<T> arrays{random_array<T>(count, shift, rng), random_array<T>(count, shift, rng),
                         random_array<T>(count, shift, rng), random_array<T>(count, shift, rng)};
  // A sum of squares is never negative.
  for (std::size_t i = 0; i < count; ++i) {
    arrays.second.data()[i] = std::abs(arrays.second.data()[i]);
  }
  return arrays;
}

// Values for elements [begin, end) that depend only on the index, not on the cut.
template <typename T>
std::vector<T> each_own(std::size_t begin, std::size_t end, T first) {
  std::vector<T> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(first + T(0.01) * static_cast<T>(i));
  return values;
}

// Runs all kernels in sequence on elements [begin, end).
template <typename T>
void run_all(const UpdateKernels<T>& kernels, T decay, UpdateArrays<T>& arrays, std::size_t begin,
             std::size_t end) {
  T* const p = arrays.parameters.data() + begin;
  T* const g = arrays.gradient.data() + begin;
  T* const a = arrays.first.data() + begin;
  T* const b = arrays.second.data() + begin;
  const std::size_t count = end - begin;
  const SgdFactors<T> sgd{T(0.1), T(0.9), T(0.7), decay};
  const AdamFactors<T> adam{.rate = T(0.003),
                            .beta1 = T(0.9),
                            .gain1 = T(0.1),
                            .beta2 = T(0.99),
                            .gain2 = T(0.01),
                            .correction = T(0.271),
                            .root = T(0.17),
                            .epsilon = T(1e-8),
                            .weight_decay = decay,
                            .shrink = T(0.999)};
  kernels.sgd(sgd, p, g, count);
  kernels.momentum(sgd, p, g, a, count);
  kernels.nesterov(sgd, p, g, a, count);
  kernels.lars({T(0.3), T(0.9), decay}, p, g, a, count);
  kernels.adagrad({T(0.02), T(1e-10), decay}, p, g, b, count);
  kernels.adam(adam, p, g, a, b, count);
  kernels.ftrl({T(0.5), T(0.1), T(1), decay, T(0.25)}, p, g, a, b, count);
  const CompensationFactors<T> compensation{T(0.04), T(0.95), T(0.05), T(1e-7)};
  kernels.compensate(compensation, p, a, g, count);
  kernels.compensate_adaptively(compensation, p, a, g, b, count);
  const std::vector<T> rates = each_own<T>(begin, end, T(0.003));
  const std::vector<T> roots = each_own<T>(begin, end, T(0.17));
  kernels.adam_each(adam, rates.data(), roots.data(), p, g, a, b, count);
  kernels.lamb_direction(adam, p, g, a, b, count);
}

template <typename T>
void expect_same(const UpdateArrays<T>& actual, const UpdateArrays<T>& expected,
                 const std::string& where) {
  EXPECT_TRUE(actual.parameters.same_as(expected.parameters)) << where;
  EXPECT_TRUE(actual.gradient.same_as(expected.gradient)) << where;
  EXPECT_TRUE(actual.first.same_as(expected.first)) << where;
  EXPECT_TRUE(actual.second.same_as(expected.second)) << where;
}

template <typename T>
class Update : public ::testing::Test {};
using UpdateTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Update, UpdateTypes);

TYPED_TEST(Update, EveryLevelCountAndAlignmentGivesTheReferencesBits) {
  Rng rng(5);
  for (std::size_t count = 0; count < 70; ++count) {
    for (const std::size_t shift : {0, 1, 3, 7}) {
      const auto decay = TypeParam(count % 2 == 0 ? 0 : 0.01);
      const auto before = random_arrays<TypeParam>(count, shift, rng);
      auto expected = before;
      run_all(update_reference<TypeParam>(), decay, expected, 0, count);
      for (const Level level : available_levels()) {
        auto actual = before;
        run_all(update_kernels<TypeParam>(level), decay, actual, 0, count);
        expect_same(actual, expected, std::string(to_string(level)));
      }
    }
  }
}

TYPED_TEST(Update, CutAnywhereItGivesTheSameBits) {
  constexpr std::size_t kCount = 301;
  Rng rng(6);
  const auto before = random_arrays<TypeParam>(kCount, 0, rng);
  for (const Level level : available_levels()) {
    const auto& kernels = update_kernels<TypeParam>(level);
    auto whole = before;
    run_all(kernels, TypeParam(0.01), whole, 0, kCount);
    for (std::size_t cut = 0; cut <= kCount; cut += 13) {
      auto parts = before;
      run_all(kernels, TypeParam(0.01), parts, 0, cut);
      run_all(kernels, TypeParam(0.01), parts, cut, kCount);
      expect_same(parts, whole, std::string(to_string(level)));
    }
  }
}

TYPED_TEST(Update, ADecayOfZeroDoesNotTouchInfiniteParameters) {
  constexpr auto kInfinity = std::numeric_limits<TypeParam>::infinity();
  for (const Level level : available_levels()) {
    std::vector<TypeParam> parameters(40, kInfinity), gradient(40, 1), momentum(40, 0);
    update_kernels<TypeParam>(level).momentum({.rate = 1, .momentum = 0, .gain = 1},
                                              parameters.data(), gradient.data(), momentum.data(),
                                              40);
    EXPECT_EQ(momentum, gradient);
    EXPECT_EQ(parameters, std::vector<TypeParam>(40, kInfinity));
  }
}

TYPED_TEST(Update, TheBestLevelIsTheLast) {
  EXPECT_EQ(&update_kernels<TypeParam>(), &update_kernels<TypeParam>(available_levels().back()));
}

}  // namespace
}  // namespace tally::kernel
