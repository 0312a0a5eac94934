#include "sim/predict.h"

#include <gtest/gtest.h>

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

const Model kFlat{.network = {.latency = 5us, .bytes_per_second = 12.5e9},
                  .reduce_seconds_per_byte = 2e-11};

void expect_equal(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model) {
  const auto simulated = predict(algorithm, ranks, bytes, model);
  const auto calculated = formula(algorithm, ranks, bytes, model);
  ASSERT_TRUE(simulated.has_value() && calculated.has_value());
  EXPECT_LE(std::chrono::abs(simulated->time - calculated->time), 1ns)
      << "algorithm " << static_cast<int>(algorithm) << " with " << ranks
      << " ranks: " << simulated->time.count() << " ns, by formula " << calculated->time.count();
}

TEST(Predict, AgreesWithTheFormulasForPowersOfTwo) {
  for (const int ranks : {1, 2, 4, 8, 16, 64}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{64}, std::size_t{64} << 14}) {
      expect_equal(Algorithm::kRing, ranks, bytes, kFlat);
      expect_equal(Algorithm::kHalvingDoubling, ranks, bytes, kFlat);
      expect_equal(Algorithm::kTree, ranks, bytes, kFlat);
    }
  }
}

TEST(Predict, ComesNearTheFormulasForOtherRankCounts) {
  for (const int ranks : {3, 5, 6, 7, 12, 17}) {
    const std::size_t bytes = static_cast<std::size_t>(ranks) * 65536;
    expect_equal(Algorithm::kRing, ranks, bytes, kFlat);
    const auto halving = predict(Algorithm::kHalvingDoubling, ranks, bytes, kFlat);
    const double by_formula = static_cast<double>(
        formula(Algorithm::kHalvingDoubling, ranks, bytes, kFlat)->time.count());
    EXPECT_NEAR(static_cast<double>(halving->time.count()), by_formula, 0.05 * by_formula);
    const auto tree = predict(Algorithm::kTree, ranks, bytes, kFlat);
    EXPECT_LE(tree->time, formula(Algorithm::kTree, ranks, bytes, kFlat)->time);
  }
}

TEST(Predict, AgreesWithTheFormulaForHosts) {
  Model model = kFlat;
  model.local = {.latency = 1us, .bytes_per_second = 100e9};
  for (const int local_ranks : {1, 2, 4, 8, 16}) {
    model.local_ranks = local_ranks;
    expect_equal(Algorithm::kHierarchical, 16, std::size_t{1} << 20, model);
  }
}

TEST(Predict, IsQuickerWhereHostsHaveFastLinks) {
  Model model = kFlat;
  model.local = {.latency = 1us, .bytes_per_second = 100e9};
  model.local_ranks = 4;
  const std::size_t bytes = std::size_t{1} << 20;
  for (const auto algorithm : {Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kTree}) {
    EXPECT_LT(predict(algorithm, 16, bytes, model)->time,
              formula(algorithm, 16, bytes, model)->time);
  }
}

TEST(Predict, CountsStepsMessagesAndBytes) {
  const std::size_t bytes = 8000;
  const auto ring = predict(Algorithm::kRing, 8, bytes, kFlat);
  EXPECT_EQ(ring->steps, 14U);
  EXPECT_EQ(ring->messages, 8U * 14);
  EXPECT_EQ(ring->bytes_per_rank, 14000U);
  const auto halving = predict(Algorithm::kHalvingDoubling, 8, bytes, kFlat);
  EXPECT_EQ(halving->steps, 6U);
  EXPECT_EQ(halving->bytes_per_rank, 14000U);
  Model hosts = kFlat;
  hosts.local_ranks = 4;
  const auto hierarchical = predict(Algorithm::kHierarchical, 8, bytes, hosts);
  EXPECT_EQ(hierarchical->steps, 2U * 3 + 2 * 1);
  EXPECT_EQ(hierarchical->bytes_per_rank, 2U * 3 * 2000 + 2 * 1000);
}

TEST(Predict, RefusesWhatItHasNoScheduleFor) {
  Model model = kFlat;
  model.local_ranks = 3;
  EXPECT_EQ(predict(Algorithm::kHierarchical, 8, 1, model).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(formula(Algorithm::kHierarchical, 8, 1, model).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(predict(Algorithm::kDirect, 8, 1, kFlat).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(formula(Algorithm::kDirect, 8, 1, kFlat).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(predict(Algorithm::kRing, 0, 1, kFlat).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tally::sim
