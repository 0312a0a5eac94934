#include "exchange/low_rank_round.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tally::exchange {
namespace {

constexpr std::size_t kRows = 6;
constexpr std::size_t kColumns = 4;

// A sender with one matrix and one gradient that is not compressed.
template <typename T>
struct RoundMember {
  codec::PowerSgd matrix{{.rows = kRows, .columns = kColumns, .rank = 1, .seed = 3}};
  std::vector<float> gradient;
  std::vector<float> plain;
  LowRankRound<T> round;

  RoundMember(float factor, std::vector<float> values) : plain(std::move(values)) {
    for (std::size_t i = 0; i < kRows * kColumns; ++i)
      gradient.push_back(factor * static_cast<float>(i / kColumns + 1) *
                         static_cast<float>(i % kColumns + 2));
  }
  void project(double weight, bool feedback = true) {
    round.project({{.matrix = &matrix, .gradient = gradient}, {.gradient = plain}},
                  {.weight = weight, .feedback = feedback});
  }
};

template <typename T>
void sum(std::span<T> a, std::span<T> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] = a[i] + b[i];
}

template <typename T>
void run_round(RoundMember<T>& a, RoundMember<T>& b) {
  sum(a.round.left(), b.round.left());
  for (RoundMember<T>* member : {&a, &b}) member->round.correlate();
  sum(a.round.right(), b.round.right());
  for (RoundMember<T>* member : {&a, &b}) member->round.finish();
}

template <typename T>
class LowRankRoundOf : public testing::Test {};
using SumTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(LowRankRoundOf, SumTypes);

// A matrix of rank 1 loses nothing.
TYPED_TEST(LowRankRoundOf, AllSendersGetTheWeightedMean) {
  RoundMember<TypeParam> a(1, {1, 2}), b(5, {3, 6});
  const std::vector<float> one = a.gradient;
  a.project(3);
  b.project(1);
  run_round(a, b);
  EXPECT_EQ(a.round.total(), 4);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(a.gradient[i], 2 * one[i], 1e-4 * one[i]) << "(3 * 1 + 1 * 5) / 4";
  EXPECT_EQ(a.gradient, b.gradient);
  EXPECT_EQ(a.plain, (std::vector<float>{1.5F, 3}));
  EXPECT_EQ(a.plain, b.plain);
}

TYPED_TEST(LowRankRoundOf, ASenderWithoutSamplesGetsTheMeanAndKeepsItsResidual) {
  RoundMember<TypeParam> a(1, {1, 2}), b(5, {3, 6});
  b.matrix.residual().front() = 7;
  const std::vector<float> one = a.gradient;
  a.project(2);
  b.project(0);
  run_round(a, b);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(b.gradient[i], one[i], 1e-4 * one[i]) << "the mean of the other sender alone";
  EXPECT_EQ(b.plain, (std::vector<float>{1, 2}));
  EXPECT_EQ(b.matrix.residual().front(), 7);
}

TYPED_TEST(LowRankRoundOf, WithoutFeedbackThereIsNoResidual) {
  RoundMember<TypeParam> a(1, {1, 2}), b(5, {3, 6});
  a.gradient[2] += 100;  // no matrix of rank 1
  a.project(1, /*feedback=*/false);
  b.project(1);
  run_round(a, b);
  for (const float value : a.matrix.residual()) EXPECT_EQ(value, 0);
  EXPECT_GT(std::abs(b.matrix.residual()[2]), 0);
}

TYPED_TEST(LowRankRoundOf, ARoundThatWasGivenUpKeepsItsGradients) {
  RoundMember<TypeParam> a(1, {1, 2}), b(5, {3, 6});
  const std::vector<float> own = a.gradient;
  a.project(1);
  a.round.correlate();
  a.round.give_up();
  const std::span<const float> residual = a.matrix.residual();
  EXPECT_EQ(own, std::vector<float>(residual.begin(), residual.end()));
  a.project(1);
  b.project(1);
  run_round(a, b);
  EXPECT_EQ(a.gradient, b.gradient);
}

}  // namespace
}  // namespace tally::exchange
