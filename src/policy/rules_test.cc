#include "policy/rules.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policy/test_rules.h"

namespace tally::policy {
namespace {

TEST(Rules, TheNumberOfWorkersGivesWhatARoundNeeds) {
  struct Case {
    std::string_view plan;
    int workers, needed;
    bool has_rounds, any_version;
  };
  constexpr Case kCases[] = {
      {"update=bsp", 4, 4, true, false},           {"update=backup:0", 4, 4, true, false},
      {"update=backup:3", 4, 1, true, false},      {"update=subset:1", 4, 1, true, false},
      {"update=subset:4", 4, 4, true, false},      {"update=kbatch:9", 4, 9, true, false},
      {"update=kbatch:9,async", 4, 9, true, true}, {"update=kasync:3", 4, 3, true, true},
      {"update=softsync:1", 7, 7, true, true},     {"update=softsync:2", 7, 3, true, true},
      {"update=softsync:7", 7, 1, true, true},     {"update=asp", 4, 1, false, false},
      {"update=ssp:3", 4, 1, false, false},
  };
  for (const Case& c : kCases) {
    const Rules rules = rules_from(c.plan, c.workers);
    EXPECT_EQ(rules.needed, c.needed) << c.plan;
    EXPECT_EQ(rules.has_rounds(), c.has_rounds) << c.plan;
    EXPECT_EQ(rules.any_version, c.any_version) << c.plan;
    EXPECT_EQ(rules.workers, c.workers);
  }
  const Rules all = rules_from(
      "update=asp:push=4,fetch=2,rate=full,momentum=kept stale=drop:2 conflict=accumulate", 3, 7);
  EXPECT_EQ(all, (Rules{.update = plan::Update::kAsp,
                        .workers = 3,
                        .needed = 1,
                        .push_every = 4,
                        .fetch_every = 2,
                        .stale = plan::Stale::kDrop,
                        .drop_above = 2,
                        .conflict = plan::Conflict::kAccumulate,
                        .rate = plan::RateShare::kFull,
                        .kept_momentum = true,
                        .seed = 7}));
}

// Everything that depends on the rules so treats them as bsp: rounds, codecs, versions.
TEST(Rules, PlansWithoutADifferenceToBspAreBsp) {
  const Rules bsp = rules_from("update=bsp", 4);
  for (const char* plan : {"update=backup:0", "update=subset:4", "update=ssp:0"})
    EXPECT_EQ(rules_from(plan, 4), bsp) << plan;
  for (const char* plan : {"update=backup:1", "update=subset:3", "update=ssp:1",
                           "update=ssp:0,rate=full", "update=kasync:4", "update=asp"})
    EXPECT_NE(rules_from(plan, 4).update, plan::Update::kBsp) << plan;
}

TEST(Rules, MoreThanTheWorkersThatThereAreIsRefused) {
  struct Case {
    std::string_view plan;
    int workers;
    std::string_view message;
  };
  constexpr Case kCases[] = {
      {"update=backup:4", 4, "update=backup:4 with 4 workers: need at most backup:3"},
      {"update=subset:5", 4, "update=subset:5 with 4 workers: need at most subset:4"},
      {"update=kasync:5", 4, "update=kasync:5 with 4 workers: need at most kasync:4"},
      {"update=softsync:5", 4, "update=softsync:5 with 4 workers: need at most softsync:4"},
      {"update=bsp", 0, "0 workers: need 1 to 65536"},
      {"update=bsp", 65537, "65537 workers: need 1 to 65536"},
      {"update=average:50", 4, "update=average:50 exchanges no gradients"},
      {"update=local:8", 4, "update=local:8 exchanges no gradients"},
  };
  for (const Case& c : kCases) {
    const auto plan = plan::parse_plan(c.plan, {.home = plan::Home::kServer});
    const auto rules = rules_of(plan.value(), c.workers, 1);
    ASSERT_FALSE(rules) << c.plan;
    EXPECT_EQ(rules.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(rules.error().message, c.message);
  }
  EXPECT_FALSE(rules_of(plan::Plan{.update = plan::Update::kSsp}, 4, 1));
}

TEST(Rules, ValuesMayBeReadWhenThePolicySays) {
  struct Case {
    std::string_view plan;
    std::uint64_t version, clock;
    ReadRule rule;
  };
  constexpr Case kCases[] = {
      {"update=bsp", 7, 3, {.least_version = 8}},
      {"update=backup:1", 7, 3, {.least_version = 8}},
      {"update=subset:2", 0, 0, {.least_version = 1}},
      {"update=kbatch:2", 7, 3, {.least_version = 7}},
      {"update=kasync:2", 7, 3, {.least_version = 8}},
      {"update=softsync:2", 7, 3, {.least_version = 7}},
      {"update=asp", 7, 3, {}},
      {"update=ssp:0", 7, 3, {.least_version = 8}},
      {"update=ssp:0,rate=full", 7, 3, {.least_clock = 3}},
      {"update=ssp:2", 7, 3, {.least_clock = 1}},
      {"update=ssp:3", 7, 3, {}},
      {"update=ssp:4", 7, 3, {}},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(read_rule(rules_from(c.plan, 4), c.version, c.clock), c.rule) << c.plan;
  }
}

TEST(Rules, GradientsAreLateWhereOtherUpdatesComeInBetween) {
  for (const char* plan : {"update=asp", "update=ssp:1", "update=kasync:3", "update=softsync:1",
                           "update=softsync:4", "update=kbatch:8,async"})
    EXPECT_TRUE(has_late_gradients(rules_from(plan, 4))) << plan;
  for (const char* plan : {"update=bsp", "update=ssp:0", "update=backup:1", "update=subset:2",
                           "update=kbatch:2", "update=kasync:4"})
    EXPECT_FALSE(has_late_gradients(rules_from(plan, 4))) << plan;
  EXPECT_FALSE(has_late_gradients(rules_from("update=asp", 1)));
}

TEST(Rules, TheRateIsSharedDampedScaledOrFull) {
  struct Case {
    std::string_view plan;
    std::uint64_t staleness;
    double factor;  // with 4 workers that have equally many samples
  };
  constexpr Case kCases[] = {
      {"update=bsp", 9, 1},
      {"update=kbatch:2", 9, 1},
      {"update=asp", 0, 0.25},
      {"update=asp", 3, 1.0 / 7},
      {"update=asp", 12, 0.0625},
      {"update=ssp:3", 12, 0.0625},
      {"update=asp:rate=shared", 15, 0.25},
      {"update=asp:rate=full", 15, 1},
      {"update=ssp:3,rate=full", 15, 1},
      {"update=asp:rate=shared stale=scale", 0, 0.25},
      {"update=asp:rate=shared stale=scale", 4, 0.25},
      {"update=asp:rate=shared stale=scale", 5, 0.2},
      {"update=asp stale=scale", 3, 1.0 / 7},
      {"update=asp stale=scale", 12, 0.0625 / 3},
      {"update=asp:rate=full stale=scale", 0, 1},
      {"update=asp:rate=full stale=scale", 1, 1},
      {"update=asp:rate=full stale=scale", 5, 0.2},
      {"update=asp:rate=shared stale=drop:3", 2, 0.25},
      {"update=asp:rate=shared stale=compensate:0.04", 2, 0.25},
      {"update=kasync:4", 0, 1},
      {"update=kasync:2", 0, 0.5},
      {"update=kasync:2", 6, 0.125},
      {"update=kasync:2,rate=shared", 15, 0.5},
      {"update=kasync:2,rate=full", 15, 1},
      {"update=softsync:2 stale=scale", 6, 0.125 / 3},
      {"update=kbatch:2,async,rate=full stale=scale", 4, 0.25},
      {"update=kbatch:8,async", 0, 1},
  };
  for (const Case& c : kCases) {
    const Rules rules = rules_from(c.plan, 4);
    EXPECT_DOUBLE_EQ(rate_factor(rules, 1 / turns_of(rules, 4), c.staleness), c.factor)
        << c.plan << " at staleness " << c.staleness;
  }
  // Adam takes the root, and adagrad the whole rate, however late.
  EXPECT_DOUBLE_EQ(rate_factor(rules_from("update=asp", 4), 0.25, 12, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(rate_factor(rules_from("update=asp", 4), 0.25, 12, 0), 1);
  EXPECT_DOUBLE_EQ(rate_factor(rules_from("update=asp stale=scale", 4), 0.25, 12, 0.5), 0.25 / 3);
  EXPECT_EQ(rate_factor(rules_from("update=asp", 4), 0, 12), 0);
}

TEST(Rules, MomentumThatComesOfTakingTurnsIsTakenOffTheOptimizers) {
  struct Case {
    std::string_view plan;
    int workers;
    double momentum, sgd, gain, adam;
  };
  constexpr Case kCases[] = {
      {"update=bsp", 4, 0.9, 0.9, 1, 0.9},
      {"update=ssp:0", 4, 0.9, 0.9, 1, 0.9},  // no turns: it is bsp
      {"update=kasync:4", 4, 0.9, 0.9, 1, 0.9},
      {"update=kasync:2", 4, 0.9, 0.4, 6, 0.8},
      {"update=kasync:2", 2, 0.9, 0.9, 1, 0.9},  // two workers are left
      {"update=kbatch:1,async", 4, 0.9, 0.15, 8.5, 0.6},
      {"update=softsync:2,momentum=kept", 4, 0.9, 0.9, 1, 0.9},
      {"update=asp", 1, 0.9, 0.9, 1, 0.9},
      {"update=asp", 4, 0.9, 0.15, 8.5, 0.6},
      {"update=ssp:3", 8, 0.9, 0.025, 9.75, 0.2},
      {"update=asp", 16, 0.9, 0, 10, 0},
      {"update=asp", 4, 0, 0, 1, 0},
      {"update=asp:rate=full", 16, 0.9, 0, 1, 0},
      {"update=asp:momentum=kept", 4, 0.9, 0.9, 1, 0.9},
      {"update=ssp:3,rate=full,momentum=kept", 4, 0.9, 0.9, 1, 0.9},
  };
  for (const Case& c : kCases) {
    const Rules rules = rules_from(c.plan, 4);
    const OptimizerInTurns left = in_turns(rules, sgd({.momentum = c.momentum}), c.workers);
    EXPECT_NEAR(left.spec.momentum, c.sgd, 1e-12) << c.plan << " with " << c.workers;
    EXPECT_NEAR(left.gain, c.gain, 1e-9) << c.plan << " with " << c.workers;
    const OptimizerInTurns adam_left = in_turns(rules, adam({.beta1 = c.momentum}), c.workers);
    EXPECT_NEAR(adam_left.spec.beta1, c.adam, 1e-12) << c.plan << " with " << c.workers;
    EXPECT_EQ(adam_left.gain, 1) << c.plan << " with " << c.workers;
  }
}

// The value after 20000 updates of x^2 / 2 from 1, by workers that take turns: each gradient is
// turns - 1 updates late. `speed` is the distance that a constant gradient of 1 moves the value in
// a step of bsp.
double value_after_turns(const Rules& rules, int workers, double momentum, double speed) {
  const auto late = static_cast<std::size_t>(turns_of(rules, workers)) - 1;
  const OptimizerInTurns turns = in_turns(rules, sgd({.momentum = momentum}), workers);
  const double rate =
      speed * (1 - momentum) * turns.gain * rate_factor(rules, 1 / turns_of(rules, workers), late);
  std::vector<double> values(late + 1, 1.0);
  double velocity = 0;
  for (int i = 0; i < 20000 && std::abs(values.back()) < 1e6; ++i) {
    velocity = turns.spec.momentum * velocity + values[values.size() - 1 - late];
    values.push_back(values.back() - rate * velocity);
  }
  return std::abs(values.back());
}

// Plain gradient descent on x^2 / 2 is stable below a speed of 2.
TEST(Rules, LateGradientsAreStableWherePlainGradientDescentIs) {
  for (const int workers : {2, 3, 4, 8, 16, 64})
    for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
      EXPECT_LT(value_after_turns(rules_from("update=asp", workers), workers, momentum, 2.5), 1e-3)
          << workers << " workers, momentum " << momentum;
      EXPECT_GT(value_after_turns(rules_from("update=asp", workers), workers, momentum, 3.5), 1e3)
          << workers << " workers, momentum " << momentum;
    }
  EXPECT_LT(value_after_turns(rules_from("update=kasync:2", 8), 8, 0.9, 2.5), 1e-3);
  EXPECT_GT(value_after_turns(rules_from("update=asp:rate=shared", 4), 4, 0.9, 2), 1e3);
}

// The same for plain SGD by workers that take turns, where a worker
// - pushes the sum of push= gradients, and reads after every step (asp); or
// - moves its own copy by its gradients, and reads after every S + 1 steps (ssp:S).
double value_after_groups(const Rules& rules, double speed) {
  struct Worker {
    double copy = 1;
    double sum = 0;                // of gradients that are not pushed yet
    std::uint64_t read = 0;        // the version of the last read
    std::uint64_t oldest = 0;      // the version of the oldest gradient in `sum`
    std::uint64_t own_pushes = 0;  // since the last read; they do not count as staleness
  };
  const double share = 1.0 / rules.workers;
  const auto others = static_cast<std::uint64_t>(rules.workers - 1);
  const bool reads_own_writes = rules.update == plan::Update::kSsp;
  std::vector<Worker> workers(static_cast<std::size_t>(rules.workers));
  double value = 1;
  std::uint64_t version = 0;
  const auto read = [&](Worker& worker) {
    worker = {.copy = value, .sum = worker.sum, .read = version, .oldest = worker.oldest};
  };
  for (std::uint64_t step = 1; step <= 3000 && std::abs(value) < 1e6; ++step) {
    for (Worker& worker : workers) {
      if (worker.sum == 0) worker.oldest = worker.read;
      const double gradient = worker.copy;
      worker.sum += gradient;
      if (step % rules.push_every == 0) {
        const std::uint64_t late = version++ - worker.oldest - worker.own_pushes++;
        value -= speed * rate_factor(rules, share, late) * std::exchange(worker.sum, 0.0);
      }
      if (reads_own_writes)
        worker.copy -= speed * rate_factor(rules, share, others) * gradient;
      else
        read(worker);
    }
    if (reads_own_writes && step % (rules.bound + 1) == 0)
      for (Worker& worker : workers) read(worker);
  }
  return std::abs(value);
}

// The limits of docs/policies.md.
TEST(Rules, GradientsInGroupsLowerTheStableLimit) {
  const struct {
    const char* plan;
    double limit;
  } kCases[] = {{"update=asp", 3.1},        {"update=asp:push=2", 2.5}, {"update=asp:push=4", 1.1},
                {"update=asp:push=8", 0.5}, {"update=ssp:1", 1.8},      {"update=ssp:3", 1.3},
                {"update=ssp:7", 1}};
  for (const auto& [plan, limit] : kCases) {
    EXPECT_LT(value_after_groups(rules_from(plan, 4), limit - 0.1), 1e-3) << plan;
    EXPECT_GT(value_after_groups(rules_from(plan, 4), limit + 0.1), 1) << plan;
  }
}

TEST(Rules, NesterovAndDampeningEndWithTheMomentum) {
  const OptimizerSpec nesterov = sgd({.momentum = 0.9, .nesterov = true});
  EXPECT_TRUE(in_turns(rules_from("update=asp", 4), nesterov, 4).spec.nesterov);
  EXPECT_EQ(in_turns(rules_from("update=asp", 16), nesterov, 16).spec, sgd());
  const OptimizerSpec damped = sgd({.momentum = 0.9, .dampening = 0.5});
  EXPECT_EQ(in_turns(rules_from("update=asp", 16), damped, 16).spec, sgd());
}

// Gradients that are not late shrink the weights as much in a step as with bsp, to first order in
// rate * decay: n updates have 1/sqrt(n) of the rate and of the decay.
TEST(Rules, AdamwShrinksTheWeightsBySteps) {
  for (const std::string_view plan : {"update=asp", "update=ssp:3", "update=kasync:1"})
    for (const int workers : {1, 2, 4, 16}) {
      const Rules rules = rules_from(plan, workers);
      const OptimizerSpec left = in_turns(rules, adamw({.weight_decay = 0.1}), workers).spec;
      EXPECT_NEAR(workers * rate_factor(rules, 1.0 / workers, 0, 0.5) * left.weight_decay, 0.1,
                  1e-12)
          << plan << " with " << workers;
    }
  const OptimizerSpec spec = adamw({.weight_decay = 0.1});
  const Rules kept = rules_from("update=asp:momentum=kept", 4);
  EXPECT_EQ(in_turns(kept, spec, 4).spec, adamw({.weight_decay = 0.05}));
  const Rules full = rules_from("update=asp:rate=full,momentum=kept", 4);
  EXPECT_EQ(in_turns(full, spec, 4).spec, spec);
  EXPECT_EQ(in_turns(rules_from("update=bsp", 4), spec, 4).spec, spec);
}

// A gradient moves the model by rate / (1 - momentum) in the long run. The updates of a step that
// are not late move it as far as one round of bsp.
TEST(Rules, TheUpdatesOfAStepMoveAsFarAsOneRound) {
  for (const std::string_view plan : {"update=asp", "update=ssp:3", "update=asp:momentum=kept",
                                      "update=kasync:1", "update=kbatch:3,async"})
    for (const int workers : {1, 2, 4, 10, 11, 64})
      for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
        const Rules rules = rules_from(plan, workers);
        const OptimizerInTurns left = in_turns(rules, sgd({.momentum = momentum}), workers);
        const double turns = turns_of(rules, workers);
        EXPECT_NEAR(turns * rate_factor(rules, 1 / turns, 0) * left.gain / (1 - left.spec.momentum),
                    1 / (1 - momentum), 1e-9)
            << plan << " with " << workers << " and " << momentum;
      }
}

TEST(Subset, EverybodyTakesPartElsewhere) {
  for (const char* plan : {"update=bsp", "update=asp", "update=backup:1", "update=subset:4"}) {
    const Rules rules = rules_from(plan, 4);
    EXPECT_EQ(drawn_ranks(rules, 5), (std::vector<int>{0, 1, 2, 3})) << plan;
    for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(takes_part(rules, rank, 5));
  }
}

TEST(Subset, HasKDifferentRanksThatSeedAndVersionGive) {
  const Rules rules = rules_from("update=subset:3", 8, 42);
  std::set<std::vector<int>> seen;
  for (std::uint64_t version = 0; version < 100; ++version) {
    const std::vector<int> ranks = drawn_ranks(rules, version);
    ASSERT_EQ(ranks.size(), 3U);
    EXPECT_EQ(std::set<int>(ranks.begin(), ranks.end()).size(), 3U);
    EXPECT_EQ(ranks, drawn_ranks(rules_from("update=subset:3", 8, 42), version));
    for (int rank = -1; rank < 10; ++rank) {
      EXPECT_EQ(takes_part(rules, rank, version),
                std::count(ranks.begin(), ranks.end(), rank) == 1);
    }
    seen.insert(ranks);
  }
  EXPECT_GT(seen.size(), 40U);
  int same = 0;
  for (std::uint64_t version = 0; version < 100; ++version) {
    same +=
        drawn_ranks(rules, version) == drawn_ranks(rules_from("update=subset:3", 8, 43), version);
  }
  EXPECT_LT(same, 10);
}

// All 10 subsets of 2 out of 5 ranks are equally likely: 40,000 draws give 4000 each, with a
// standard deviation of 60. Successive versions are independent: the share of repeats is 1/10, with
// a standard deviation of 0.0015.
TEST(Subset, AllAreEquallyLikelyAndIndependent) {
  constexpr int kDraws = 40000;
  const Rules rules = rules_from("update=subset:2", 5, 3);
  std::map<std::vector<int>, int> counts;
  int repeats = 0;
  std::vector<int> last;
  for (int version = 0; version < kDraws; ++version) {
    const std::vector<int> ranks = drawn_ranks(rules, static_cast<std::uint64_t>(version));
    ++counts[ranks];
    repeats += ranks == last;
    last = ranks;
  }
  ASSERT_EQ(counts.size(), 10U);
  for (const auto& [ranks, count] : counts) {
    EXPECT_NEAR(count, kDraws / 10.0, 5 * 60) << ranks[0] << " and " << ranks[1];
  }
  EXPECT_NEAR(static_cast<double>(repeats) / kDraws, 0.1, 5 * 0.0015);
}

}  // namespace
}  // namespace tally::policy
