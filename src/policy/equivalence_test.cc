// Policies whose limits make them equivalent train the same model on a quadratic, for any order of
// arrival.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "policy/test_rules.h"
#include "policy/test_training.h"

namespace tally::policy {
namespace {

std::vector<double> trained(std::string_view plan, int workers, std::uint64_t seed) {
  constexpr int kParts = 3;
  TestTraining training({.rules = rules_from(plan, workers),
                         .parts = kParts,
                         .total = 60,
                         .seed = seed,
                         .most_delay = 0.5});
  EXPECT_TRUE(training.run()) << plan;
  std::vector<double> values;
  for (int part = 0; part < kParts; ++part) values.push_back(training.part(part).value());
  return values;
}

// Gradients are summed in rank order, so the order of arrival does not change even the last bit.
TEST(Equivalence, RoundsThatEverybodyIsInAreBsp) {
  const std::vector<double> bsp = trained("update=bsp", 4, 1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(trained("update=bsp", 4, seed), bsp) << "seed " << seed;
    EXPECT_EQ(trained("update=backup:0", 4, seed), bsp) << "seed " << seed;
    EXPECT_EQ(trained("update=subset:4", 4, seed), bsp) << "seed " << seed;
    EXPECT_EQ(trained("update=ssp:0", 4, seed), bsp) << "seed " << seed;
    // All workers are in every round of kasync:N, and none computes at another version.
    EXPECT_EQ(trained("update=kasync:4", 4, seed), bsp) << "seed " << seed;
  }
}

// ssp:0 with the full learning rate applies each of the N gradients of a version by itself: N times
// the step of bsp. Only the order of the additions differs.
TEST(Equivalence, SspWithoutSlackIsBspGradientByGradient) {
  constexpr int kWorkers = 4;
  const auto trained_at = [](std::string_view plan, double rate, std::uint64_t seed) {
    TestTraining training({.rules = rules_from(plan, kWorkers),
                           .total = 60,
                           .seed = seed,
                           .rate = rate,
                           .most_delay = 0.5});
    EXPECT_TRUE(training.run()) << plan;
    return training.part(0).value();
  };
  const double bsp = trained_at("update=bsp", 0.1, 1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    EXPECT_NEAR(trained_at("update=ssp:0,rate=full", 0.1 / kWorkers, seed), bsp, 1e-12);
  EXPECT_GT(std::abs(trained_at("update=ssp:3", 0.1, 1) - bsp), 1e-6);
}

TEST(Equivalence, OneWorkerAloneIsTheSameEverywhere) {
  const std::vector<double> bsp = trained("update=bsp", 1, 1);
  for (const char* plan :
       {"update=asp", "update=ssp:0", "update=ssp:3", "update=kbatch:1", "update=asp stale=scale",
        "update=asp stale=drop:0", "update=asp:fetch=5", "update=asp stale=compensate:0.5",
        "update=kasync:1", "update=kbatch:1,async", "update=softsync:1 stale=scale"}) {
    const std::vector<double> other = trained(plan, 1, 2);
    for (std::size_t i = 0; i < bsp.size(); ++i) EXPECT_NEAR(other[i], bsp[i], 1e-12) << plan;
  }
}

TEST(Equivalence, CompensationByNothingIsKeep) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<double> keep = trained("update=asp", 4, seed);
    EXPECT_EQ(trained("update=asp stale=compensate:0", 4, seed), keep) << "seed " << seed;
    EXPECT_NE(trained("update=asp stale=compensate:0.5", 4, seed), keep) << "seed " << seed;
    EXPECT_EQ(trained("update=asp stale=drop:1000000", 4, seed), keep) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tally::policy
