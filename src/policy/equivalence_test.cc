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
  }
}

// ssp applies each gradient on arrival at 1/N of the learning rate. Only the order of the additions
// differs.
TEST(Equivalence, SspWithoutSlackIsBsp) {
  const std::vector<double> bsp = trained("update=bsp", 4, 1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<double> ssp = trained("update=ssp:0", 4, seed);
    for (std::size_t i = 0; i < bsp.size(); ++i) EXPECT_NEAR(ssp[i], bsp[i], 1e-12);
  }
  const std::vector<double> loose = trained("update=ssp:3", 4, 1);
  EXPECT_GT(std::abs(loose[0] - bsp[0]), 1e-6);
}

TEST(Equivalence, OneWorkerAloneIsTheSameEverywhere) {
  const std::vector<double> bsp = trained("update=bsp", 1, 1);
  for (const char* plan :
       {"update=asp", "update=ssp:0", "update=ssp:3", "update=kbatch:1", "update=asp stale=scale",
        "update=asp stale=drop:0", "update=asp:fetch=5", "update=asp stale=compensate:0.5"}) {
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
