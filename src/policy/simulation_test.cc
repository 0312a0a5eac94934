// Workers and server parts in virtual time. The tests check invariants for random arrival orders,
// each with its seed, and compare the timing with theory.
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policy/test_rules.h"
#include "policy/test_training.h"

namespace tally::policy {
namespace {

constexpr const char* kPlans[] = {"update=bsp",
                                  "update=backup:0",
                                  "update=backup:1",
                                  "update=backup:3",
                                  "update=subset:1",
                                  "update=subset:2",
                                  "update=subset:4",
                                  "update=kbatch:1",
                                  "update=kbatch:3",
                                  "update=kbatch:9",
                                  "update=kbatch:3,async",
                                  "update=kbatch:9,async",
                                  "update=kasync:1",
                                  "update=kasync:3",
                                  "update=kasync:4",
                                  "update=kasync:3 stale=drop:1",
                                  "update=softsync:2 stale=scale",
                                  "update=asp",
                                  "update=asp:push=3,fetch=2",
                                  "update=ssp:0",
                                  "update=ssp:0,rate=full",
                                  "update=ssp:3",
                                  "update=asp stale=drop:2",
                                  "update=asp stale=scale"};

void expect_all_are_accounted_for(const TestTraining& training, int parts,
                                  const std::string& where) {
  for (int i = 0; i < parts; ++i) {
    const TestPart& part = training.part(i);
    EXPECT_EQ(part.offered(), part.applied() + part.dropped() + part.round().held()) << where;
    EXPECT_EQ(part.round().staleness().total(), part.applied()) << where;
  }
}

// From one seed to the next. With sanitizers, which are slow, every fourth seed is simulated.
#if defined(TALLY_SANITIZED)
constexpr std::uint64_t kStride = 4;
#else
constexpr std::uint64_t kStride = 1;
#endif

// Messages take up to a whole step, so that parts are at different versions.
TEST(Simulation, EveryPolicyComesToAnEndAndAccountsForEveryGradient) {
  for (const char* plan : kPlans) {
    for (std::uint64_t seed = 1; seed <= 20; seed += kStride) {
      const std::string where = std::string(plan) + ", seed " + std::to_string(seed);
      const Rules rules = rules_from(plan, 4, seed);
      TestTraining training({.rules = rules,
                             .parts = 3,
                             .total = 40,
                             .seed = seed,
                             .most_delay = 0.05 * static_cast<double>(seed)});
      ASSERT_TRUE(training.run()) << where;
      EXPECT_EQ(training.ended(), 4U) << where;
      expect_all_are_accounted_for(training, 3, where);
    }
  }
}

TEST(Simulation, EveryRoundHasExactlyWhomItShould) {
  for (const char* plan : kPlans) {
    const Rules rules = rules_from(plan, 4);
    if (!rules.has_rounds()) continue;
    TestTraining training({.rules = rules, .parts = 2, .total = 100, .most_delay = 0.3});
    ASSERT_TRUE(training.run()) << plan;
    // Some workers may have finished before the last rounds are applied; with drops, parts differ.
    constexpr std::size_t kRounds = 180;
    ASSERT_GE(training.rounds().size(), kRounds) << plan;
    for (std::size_t i = 0; i < kRounds; ++i) {
      const std::vector<Offer>& round = training.rounds()[i];
      EXPECT_EQ(round.size(), static_cast<std::size_t>(rules.needed)) << plan;
      std::vector<int> ranks;
      for (const Offer& offer : round) {
        if (!rules.any_version) {
          EXPECT_EQ(offer.version, round[0].version) << plan;
        }
        ranks.push_back(training.rank_of(offer.worker));
      }
      EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end())) << plan;
      const bool several = rules.update == plan::Update::kKbatch;
      if (!several) {
        EXPECT_EQ(std::set<int>(ranks.begin(), ranks.end()).size(), ranks.size());
      }
      if (rules.update == plan::Update::kSubset) {
        EXPECT_EQ(ranks, drawn_ranks(rules, round[0].version));
      }
    }
  }
}

std::vector<TestTraining::Change> random_changes(std::uint64_t seed, int workers) {
  Rng rng(seed * 977);
  std::vector<TestTraining::Change> changes;
  for (std::uint64_t i = rng.below(10) + 1; i > 0; --i) {
    changes.push_back({.at = 60 * rng.uniform(),
                       .rank = static_cast<int>(rng.below(static_cast<std::uint64_t>(workers) + 1)),
                       .joins = rng.below(2) == 0});
  }
  // The round waits for every rank to join once, so replace each worker that may have died before.
  for (int rank = 0; rank < workers; ++rank) {
    changes.push_back({.at = 61 + rng.uniform(), .rank = rank, .joins = true});
  }
  return changes;
}

TEST(Simulation, NobodyWaitsForEverWhoeverLeavesAndJoins) {
  for (const char* plan : kPlans) {
    for (std::uint64_t seed = 1; seed <= 60; seed += kStride) {
      const std::string where = std::string(plan) + ", seed " + std::to_string(seed);
      TestTraining training({.rules = rules_from(plan, 4, seed),
                             .parts = 3,
                             .total = 40,
                             .seed = seed,
                             .most_delay = 0.025 * static_cast<double>(seed),
                             .changes = random_changes(seed, 4)});
      ASSERT_TRUE(training.run()) << where;
      EXPECT_GE(training.ended(), 4U) << where;
      expect_all_are_accounted_for(training, 3, where);
    }
  }
}

// A worker that leaves is not replaced; the others continue.
TEST(Simulation, TheOthersGoOnWithoutTheDead) {
  for (const char* plan : kPlans) {
    for (std::uint64_t seed = 1; seed <= 30; seed += kStride) {
      Rng rng(seed);
      const int survivor = static_cast<int>(rng.below(4));
      std::vector<TestTraining::Change> changes;
      for (int rank = 0; rank < 4; ++rank) {
        if (rank != survivor) changes.push_back({.at = 5 + 20 * rng.uniform(), .rank = rank});
      }
      TestTraining training({.rules = rules_from(plan, 4, seed),
                             .parts = 2,
                             .total = 60,
                             .seed = seed,
                             .most_delay = 0.2,
                             .changes = changes});
      ASSERT_TRUE(training.run()) << plan << ", seed " << seed;
      EXPECT_GE(training.ended(), 1U) << plan << ", seed " << seed;
    }
  }
}

TEST(Simulation, TheGapOfClocksNeverExceedsTheBoundWithASleeper) {
  for (const std::uint64_t bound : {0U, 1U, 3U, 7U}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      for (const bool with_changes : {false, true}) {
        TestTraining training({.rules = rules_from("update=ssp:" + std::to_string(bound), 4),
                               .parts = 2,
                               .total = 80,
                               .seed = seed,
                               .most_delay = 0.1,
                               .seconds =
                                   [](Rng& rng, int rank) {
                                     const bool sleeps = rank == 1 && rng.below(10) == 0;
                                     return exponential(rng, 1) + (sleeps ? 40 : 0);
                                   },
                               .changes = with_changes ? random_changes(seed, 4)
                                                       : std::vector<TestTraining::Change>()});
        ASSERT_TRUE(training.run());
        // Without changes the gap also reaches the bound: the policy does not wait more than it
        // must.
        if (with_changes) {
          EXPECT_LE(training.largest_gap(), bound) << "seed " << seed;
        } else {
          EXPECT_EQ(training.largest_gap(), bound) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Simulation, WithoutABoundASleeperIsLeftBehind) {
  TestTraining training({.rules = rules_from("update=asp", 4),
                         .total = 80,
                         .seconds = [](Rng&, int rank) { return rank == 1 ? 4.0 : 1.0; }});
  ASSERT_TRUE(training.run());
  EXPECT_GT(training.largest_gap(), 50U);
}

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

// Step times are exponential with mean 1/mu = 2 s and messages take no time, so the mean time of an
// update is known (K of P: Dutta et al. 2018). 8000 updates measure it to within 1 % (two standard
// deviations; the intervals are independent, with a standard deviation of at most their mean).
TEST(Simulation, MeanTimesOfUpdatesAreThoseOfTheory) {
  constexpr double kMean = 2;
  constexpr std::uint64_t kUpdates = 8000;
  struct Case {
    const char* plan;
    int workers;
    double expected;  // in units of the mean step time
  };
  const Case cases[] = {
      {"update=bsp", 8, harmonic(8)},
      {"update=backup:0", 4, harmonic(4)},
      {"update=backup:1", 8, harmonic(8) - harmonic(1)},
      {"update=backup:4", 8, harmonic(8) - harmonic(4)},
      {"update=backup:1", 4, harmonic(4) - harmonic(1)},
      {"update=kbatch:4", 8, 4.0 / 8},
      {"update=kbatch:1", 4, 1.0 / 4},
      {"update=kbatch:12", 4, 12.0 / 4},
      {"update=subset:3", 8, harmonic(3)},
      {"update=ssp:0", 4, harmonic(4)},
      {"update=ssp:0,rate=full", 4, harmonic(4)},
      {"update=kbatch:4,async", 8, 4.0 / 8},
      {"update=softsync:2", 8, 4.0 / 8},
      {"update=kasync:8", 8, harmonic(8)},
      {"update=kasync:1", 4, 1.0 / 4},
  };
  for (const Case& c : cases) {
    TestTraining training({.rules = rules_from(c.plan, c.workers),
                           .total = kUpdates,
                           .seed = 5,
                           .seconds = [](Rng& rng, int) { return exponential(rng, kMean); }});
    ASSERT_TRUE(training.run()) << c.plan;
    const double mean = training.ended_at() / kUpdates / kMean;
    EXPECT_NEAR(mean / c.expected, 1, 0.03) << c.plan << " with " << c.workers;
  }
}

// While a worker computes, the server applies one gradient of each of the N-1 others on average.
TEST(Simulation, StalenessOfAspIsOneLessThanTheWorkers) {
  for (const int workers : {1, 2, 8}) {
    TestTraining training({.rules = rules_from("update=asp", workers), .total = 1000});
    ASSERT_TRUE(training.run());
    const Histogram& histogram = training.part(0).round().staleness();
    double sum = 0;
    for (std::size_t i = 0; i < Histogram::kBins; ++i) {
      sum += static_cast<double>(i * histogram.bins()[i]);
    }
    const double mean = sum / static_cast<double>(histogram.total());
    EXPECT_NEAR(mean, workers - 1, 0.05 * workers) << workers;
  }
}

// n-softsync: an update takes N/n gradients, and a gradient is about n updates late (Zhang, Gupta,
// Lian, Liu 2016).
TEST(Simulation, StalenessOfSoftsyncIsAboutItsNumber) {
  for (const int softness : {1, 2, 4, 8}) {
    const std::string plan = "update=softsync:" + std::to_string(softness);
    TestTraining training({.rules = rules_from(plan, 8), .total = 2000});
    ASSERT_TRUE(training.run());
    const Histogram& histogram = training.part(0).round().staleness();
    double sum = 0;
    for (std::size_t i = 0; i < Histogram::kBins; ++i)
      sum += static_cast<double>(i * histogram.bins()[i]);
    const double mean = sum / static_cast<double>(histogram.total());
    EXPECT_NEAR(mean, softness, 0.2 * softness) << softness;
  }
}

// K-async: the K workers of a round differ, and none of their gradients is lost.
TEST(Simulation, KasyncUsesEveryGradient) {
  for (const int needed : {1, 2, 3, 4}) {
    const std::string plan = "update=kasync:" + std::to_string(needed);
    TestTraining training({.rules = rules_from(plan, 4), .total = 200});
    ASSERT_TRUE(training.run());
    EXPECT_EQ(training.part(0).dropped(), 0U) << plan;
    EXPECT_EQ(training.given_up(), 0U) << plan;
  }
}

TEST(Simulation, DropKeepsStalenessWithinItsLimit) {
  TestTraining training({.rules = rules_from("update=asp stale=drop:2", 8), .total = 200});
  ASSERT_TRUE(training.run());
  const auto& bins = training.part(0).round().staleness().bins();
  for (std::size_t i = 3; i < bins.size(); ++i) EXPECT_EQ(bins[i], 0U);
  EXPECT_GT(bins[2], 0U);
  EXPECT_GT(training.part(0).dropped() + training.given_up(), 0U);
}

// The slow worker of four neither delays the others nor has steps left when they finish.
TEST(Simulation, BackupIsAsFastAsTheOthersWithOneSlowWorker) {
  const auto time_of = [](const char* plan) {
    TestTraining training({.rules = rules_from(plan, 4),
                           .total = 200,
                           .seconds = [](Rng&, int rank) { return rank == 2 ? 4.0 : 1.0; }});
    EXPECT_TRUE(training.run()) << plan;
    return training.ended_at();
  };
  EXPECT_NEAR(time_of("update=bsp"), 800, 1e-6);
  EXPECT_NEAR(time_of("update=backup:1"), 200, 1e-6);
}

}  // namespace
}  // namespace tally::policy
