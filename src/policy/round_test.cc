#include "policy/round.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "policy/test_rules.h"

namespace tally::policy {
namespace {

// Ranks 0 to N-1 are workers 10 to 10+N-1.
Round crew(std::string_view plan, int workers) {
  Round round(rules_from(plan, workers));
  for (int rank = 0; rank < workers; ++rank) round.join(10U + static_cast<Worker>(rank), rank);
  return round;
}

Offer from(Worker worker, std::uint64_t version, std::uint64_t clock = 0) {
  return {.worker = worker, .clock = clock != 0 ? clock : version + 1, .version = version};
}

std::vector<Worker> workers_of(const std::vector<Offer>& offers) {
  std::vector<Worker> workers;
  for (const Offer& offer : offers) workers.push_back(offer.worker);
  return workers;
}

using Workers = std::vector<Worker>;

void apply(Round& round, const Offer& offer) { round.applied(offer, round.staleness_of(offer)); }

// The expected result of an offer or another event.
struct Step {
  std::string_view what;  // "offer", "leave", "join", "pass", "version"
  Worker worker;
  std::uint64_t version;
  Decision decision;
  Workers counted, dropped;
  std::uint64_t version_after;
};

void play(Round& round, const std::vector<Step>& steps) {
  int number = 0;
  for (const Step& step : steps) {
    const std::string where = "step " + std::to_string(number++);
    if (step.what == "offer") {
      EXPECT_EQ(round.offer(from(step.worker, step.version)), step.decision) << where;
      if (step.decision == Decision::kApply) apply(round, from(step.worker, step.version));
    }
    if (step.what == "leave") round.leave(step.worker);
    if (step.what == "join") round.join(step.worker, static_cast<int>(step.version));
    if (step.what == "pass") round.pass(step.worker, step.version);
    if (step.what == "version") round.set_version(step.version);
    const Round::Due due = round.due();
    EXPECT_EQ(workers_of(due.counted), step.counted) << where;
    EXPECT_EQ(workers_of(due.dropped), step.dropped) << where;
    if (!due.counted.empty()) round.applied(due.counted);
    EXPECT_EQ(round.version(), step.version_after) << where;
  }
}

constexpr Decision kHold = Decision::kHold, kDrop = Decision::kDrop, kApply = Decision::kApply;

TEST(Round, BspWaitsForAllAndSumsByRank) {
  Round round = crew("update=bsp", 3);
  play(round, {{"offer", 12, 0, kHold, {}, {}, 0},
               {"offer", 10, 0, kHold, {}, {}, 0},
               {"offer", 11, 0, kHold, {10, 11, 12}, {}, 1},
               {"offer", 11, 0, kDrop, {}, {}, 1},
               {"offer", 11, 1, kHold, {}, {}, 1},
               {"offer", 11, 1, kHold, {}, {}, 1},  // a retry
               {"offer", 10, 1, kHold, {}, {}, 1},
               {"leave", 12, 0, kHold, {10, 11}, {}, 2}});
  EXPECT_EQ(round.staleness().bins()[0], 5U);
  EXPECT_EQ(round.staleness().total(), 5U);
  EXPECT_EQ(round.held(), 0U);
}

TEST(Round, BspBeginsWhenAsManyRanksHaveComeAsThereAreToBe) {
  Round round(rules_from("update=bsp", 3));
  round.join(10, 0);
  round.join(11, 1);
  EXPECT_FALSE(round.is_complete());
  play(round, {{"offer", 10, 0, kHold, {}, {}, 0},
               {"offer", 11, 0, kHold, {}, {}, 0},
               // Rank 1 restarts; the restarted worker does not count as a third rank.
               {"leave", 11, 0, kHold, {}, {}, 0},
               {"join", 13, 1, kHold, {}, {}, 0},
               {"offer", 13, 0, kHold, {}, {}, 0}});
  EXPECT_FALSE(round.is_complete());
  round.join(14, 2);
  EXPECT_TRUE(round.is_complete());
  // The offer of the worker that left still counts.
  play(round, {{"offer", 14, 0, kHold, {10, 11, 13, 14}, {}, 1},
               {"leave", 10, 0, kHold, {}, {}, 1},
               {"leave", 13, 0, kHold, {}, {}, 1},
               {"offer", 14, 1, kHold, {14}, {}, 2}});
  EXPECT_TRUE(round.is_complete());
}

TEST(Round, OneThatJoinsIsWaitedFor) {
  Round round = crew("update=bsp", 2);
  play(round, {{"offer", 10, 0, kHold, {}, {}, 0},
               {"join", 12, 2, kHold, {}, {}, 0},
               {"offer", 11, 0, kHold, {}, {}, 0},
               {"offer", 12, 0, kHold, {10, 11, 12}, {}, 1},
               // Another worker takes rank 1 and replaces the previous one.
               {"join", 13, 1, kHold, {}, {}, 1},
               {"offer", 11, 1, kDrop, {}, {}, 1},
               {"offer", 12, 1, kHold, {}, {}, 1},
               {"offer", 13, 1, kHold, {}, {}, 1},
               {"offer", 10, 1, kHold, {10, 13, 12}, {}, 2}});
  EXPECT_EQ(round.members(), (Workers{10, 12, 13}));
}

TEST(Round, StrangersAreDropped) {
  for (const char* plan : {"update=bsp", "update=asp", "update=kbatch:1"}) {
    Round round = crew(plan, 2);
    play(round, {{"offer", 99, 0, kDrop, {}, {}, 0}});
    round.leave(99);
    round.advance(99, 5);
    round.pass(99, 5);
    EXPECT_EQ(round.members(), (Workers{10, 11}));
  }
}

TEST(Round, OffersOfLaterVersionsAreHeldUntilItIsTheirTurn) {
  Round round = crew("update=bsp", 2);
  play(round, {{"offer", 10, 1, kHold, {}, {}, 0},
               // Worker 10 is past version 0, so the round does not wait for it.
               {"offer", 11, 0, kHold, {11}, {}, 1},
               {"offer", 11, 1, kHold, {10, 11}, {}, 2},
               // All workers are past version 2, so the round passes over it.
               {"offer", 10, 4, kHold, {}, {}, 2},
               {"offer", 11, 5, kHold, {10}, {}, 5},
               {"offer", 10, 5, kHold, {10, 11}, {}, 6}});
}

TEST(Round, AVersionThatIsSetDropsOlderOffers) {
  Round round = crew("update=bsp", 2);
  play(round, {{"offer", 10, 0, kHold, {}, {}, 0},
               {"version", 0, 8, kHold, {}, {10}, 8},
               {"offer", 10, 8, kHold, {}, {}, 8},
               {"offer", 11, 8, kHold, {10, 11}, {}, 9}});
}

TEST(Round, BackupTakesTheFirstAndDropsTheLate) {
  Round round = crew("update=backup:1", 3);
  play(round, {{"offer", 12, 0, kHold, {}, {}, 0},
               {"offer", 10, 0, kHold, {10, 12}, {}, 1},
               {"offer", 11, 0, kDrop, {}, {}, 1},
               {"offer", 11, 1, kHold, {}, {}, 1},
               {"leave", 12, 0, kHold, {}, {}, 1},
               {"offer", 10, 1, kHold, {10, 11}, {}, 2},
               // Fewer than N-B workers are left, so the round waits for all of them.
               {"offer", 10, 2, kHold, {}, {}, 2},
               {"leave", 11, 0, kHold, {10}, {}, 3},
               {"join", 13, 2, kHold, {}, {}, 3},
               {"offer", 10, 3, kHold, {}, {}, 3},
               {"offer", 13, 3, kHold, {10, 13}, {}, 4}});
}

TEST(Round, BackupCountsByArrivalWhereSeveralWereHeld) {
  Round round = crew("update=backup:1", 3);
  for (const Worker worker : {12U, 11U, 10U}) EXPECT_EQ(round.offer(from(worker, 0)), kHold);
  const Round::Due due = round.due();
  EXPECT_EQ(workers_of(due.counted), (Workers{11, 12}));
  EXPECT_EQ(workers_of(due.dropped), (Workers{10}));
}

// Worker 12 gave up its gradient because another part continued with the gradients of 10 and 11.
// Then 10 died before its gradient reached this part.
TEST(Round, BackupDoesNotWaitForOneThatHasPassed) {
  Round round = crew("update=backup:1", 3);
  play(
      round,
      {{"offer", 11, 0, kHold, {}, {}, 0},
       {"pass", 12, 1, kHold, {}, {}, 0},
       {"leave", 10, 0, kHold, {11}, {}, 1},
       {"offer", 12, 1, kHold, {}, {}, 1},
       {"offer", 11, 1, kHold, {11, 12}, {}, 2},
       // No gradient can arrive: the round skips the version. A pass reaches only the next version.
       {"pass", 12, 900, kHold, {}, {}, 2},
       {"pass", 11, 3, kHold, {}, {}, 3},
       {"offer", 12, 3, kHold, {}, {}, 3}});
  Round bsp = crew("update=bsp", 2);
  play(bsp, {{"offer", 10, 0, kHold, {}, {}, 0}, {"pass", 11, 1, kHold, {}, {}, 0}});
}

TEST(Round, SubsetWaitsForTheDrawnAndForNobodyElse) {
  const Rules rules = rules_from("update=subset:2", 4, 5);
  Round round(rules);
  for (int rank = 0; rank < 4; ++rank) round.join(10U + static_cast<Worker>(rank), rank);
  for (std::uint64_t version = 0; version < 20; ++version) {
    const std::vector<int> drawn = drawn_ranks(rules, version);
    for (int rank = 0; rank < 4; ++rank) {
      const Worker worker = 10U + static_cast<Worker>(rank);
      const bool is_drawn = takes_part(rules, rank, version);
      EXPECT_EQ(round.offer(from(worker, version)), is_drawn ? kHold : kDrop);
      const Round::Due due = round.due();
      if (rank == drawn.back()) {
        EXPECT_EQ(workers_of(due.counted), (Workers{10U + static_cast<Worker>(drawn[0]),
                                                    10U + static_cast<Worker>(drawn[1])}));
        round.applied(due.counted);
      } else {
        EXPECT_TRUE(due.nothing());
      }
    }
    EXPECT_EQ(round.version(), version + 1);
  }
}

TEST(Round, SubsetGoesOnWithoutDrawnWorkersThatLeft) {
  const Rules rules = rules_from("update=subset:2", 4, 5);
  Round round(rules);
  for (int rank = 0; rank < 4; ++rank) round.join(10U + static_cast<Worker>(rank), rank);
  const std::vector<int> drawn = drawn_ranks(rules, 0);
  const auto worker = [&](std::size_t i) { return 10U + static_cast<Worker>(drawn[i]); };
  EXPECT_EQ(round.offer(from(worker(0), 0)), kHold);
  EXPECT_TRUE(round.due().nothing());
  round.leave(worker(1));
  const Round::Due first = round.due();
  EXPECT_EQ(workers_of(first.counted), (Workers{worker(0)}));
  round.applied(first.counted);
  // The remaining ranks are drawn only for a later version, so the round passes over the versions
  // before it.
  round.leave(worker(0));
  std::uint64_t next = 1;
  while (drawn_ranks(rules, next) == drawn) ++next;
  const Round::Due due = round.due();
  EXPECT_EQ(due.passed_over, next - 1);
  EXPECT_EQ(round.version(), next);
  EXPECT_TRUE(due.counted.empty());
}

TEST(Round, SubsetWithoutAnyRankThatCanBeDrawnStays) {
  Round round = crew("update=subset:1", 2);
  round.join(20, 7);
  round.leave(10);
  round.leave(11);
  EXPECT_TRUE(round.due().nothing());
  EXPECT_EQ(round.version(), 0U);
}

TEST(Round, KbatchTakesTheFirstKFromAnybody) {
  Round round = crew("update=kbatch:3", 2);
  EXPECT_EQ(round.offer(from(11, 0, 1)), kHold);
  EXPECT_EQ(round.offer(from(10, 0, 1)), kHold);
  EXPECT_EQ(round.offer(from(11, 0, 1)), kHold);  // a retry
  EXPECT_TRUE(round.due().nothing());
  EXPECT_EQ(round.held(), 2U);
  EXPECT_EQ(round.offer(from(11, 0, 2)), kHold);
  const Round::Due due = round.due();
  EXPECT_EQ(workers_of(due.counted), (Workers{10, 11, 11}));
  EXPECT_EQ(due.counted[1].clock, 1U);
  EXPECT_EQ(due.counted[2].clock, 2U);
  round.applied(due.counted);
  EXPECT_EQ(round.offer(from(10, 0, 2)), kDrop);
  // One worker alone can fill a round.
  round.leave(10);
  for (std::uint64_t clock = 3; clock < 6; ++clock) {
    EXPECT_TRUE(round.due().nothing());
    EXPECT_EQ(round.offer(from(11, 1, clock)), kHold);
  }
  EXPECT_EQ(round.due().counted.size(), 3U);
}

TEST(Round, AspAppliesEachAndCountsStaleness) {
  Round round = crew("update=asp", 2);
  play(round, {{"offer", 10, 0, kApply, {}, {}, 1},
               {"offer", 11, 0, kApply, {}, {}, 2},
               {"offer", 11, 0, kApply, {}, {}, 3},
               {"offer", 10, 3, kApply, {}, {}, 4},
               {"offer", 10, 9, kApply, {}, {}, 5}});
  const auto& bins = round.staleness().bins();
  EXPECT_EQ(bins[0], 3U);
  EXPECT_EQ(bins[1], 1U);
  EXPECT_EQ(bins[2], 1U);
  round.set_version(1000);
  EXPECT_EQ(round.offer(from(10, 3)), kApply);
  apply(round, from(10, 3));
  EXPECT_EQ(bins[Histogram::kBins - 1], 1U);
  EXPECT_TRUE(round.may_read(1001, 0));
  EXPECT_FALSE(round.may_read(1002, 0));
}

// A gradient that was not applied in the end changes neither the histogram, nor the clock, nor the
// version.
TEST(Round, WhatCannotBeAppliedDoesNotCount) {
  Round asp = crew("update=asp", 1);
  EXPECT_EQ(asp.offer(from(10, 0, 4)), kApply);
  EXPECT_EQ(asp.staleness().total(), 0U);
  EXPECT_EQ(asp.slowest_clock(), 0U);
  EXPECT_EQ(asp.version(), 0U);
  Round bsp = crew("update=bsp", 1);
  EXPECT_EQ(bsp.offer(from(10, 0, 1)), kHold);
  EXPECT_EQ(bsp.due().counted.size(), 1U);
  EXPECT_EQ(bsp.staleness().total(), 0U);
  EXPECT_EQ(bsp.version(), 0U);
  EXPECT_TRUE(bsp.due().nothing());
  play(bsp, {{"offer", 10, 0, kHold, {10}, {}, 1}});
  EXPECT_EQ(bsp.staleness().total(), 1U);
}

TEST(Round, AnOfferThatIsTakenBackIsWaitedForAgain) {
  Round round = crew("update=bsp", 2);
  EXPECT_EQ(round.offer(from(10, 0, 1)), kHold);
  round.withdraw(from(10, 1, 1));
  EXPECT_EQ(round.held(), 1U);
  round.withdraw(from(10, 0, 1));
  EXPECT_EQ(round.held(), 0U);
  play(round, {{"offer", 11, 0, kHold, {}, {}, 0}, {"offer", 10, 0, kHold, {10, 11}, {}, 1}});
}

TEST(Round, DropLeavesOutWhatIsMoreThanTVersionsOld) {
  Round round = crew("update=asp stale=drop:2", 2);
  play(round, {{"version", 0, 5, kHold, {}, {}, 5},
               {"offer", 10, 3, kApply, {}, {}, 6},
               {"offer", 10, 3, kDrop, {}, {}, 6},
               {"offer", 10, 4, kApply, {}, {}, 7}});
  EXPECT_EQ(round.staleness().total(), 2U);
  // A dropped gradient still advances the clock, so that other workers do not wait.
  Round ssp = crew("update=ssp:1 stale=drop:0", 1);
  ssp.set_version(5);
  EXPECT_EQ(ssp.offer(from(10, 3, 4)), kDrop);
  EXPECT_EQ(ssp.slowest_clock(), 4U);
}

TEST(Round, SspReadsWaitForTheSlowest) {
  Round round = crew("update=ssp:1", 3);
  for (const Worker worker : {10U, 11U, 12U}) {
    EXPECT_EQ(round.offer(from(worker, 0, 1)), kApply);
    apply(round, from(worker, 0, 1));
  }
  EXPECT_EQ(round.slowest_clock(), 1U);
  EXPECT_EQ(round.offer(from(10, 3, 2)), kApply);
  apply(round, from(10, 3, 2));
  EXPECT_TRUE(round.may_read(0, 1));
  EXPECT_FALSE(round.may_read(0, 2));
  round.advance(11, 3);
  EXPECT_FALSE(round.may_read(0, 2));
  round.leave(12);  // the others no longer wait for it
  EXPECT_TRUE(round.may_read(0, 2));
  round.advance(11, 1);  // clocks never decrease
  EXPECT_TRUE(round.may_read(0, 2));
  round.join(13, 2);  // starts at the slowest clock
  EXPECT_TRUE(round.may_read(0, 2));
  EXPECT_FALSE(round.may_read(0, 3));
  EXPECT_EQ(round.slowest_clock(), 2U);
}

TEST(Round, SspWaitsForThoseWhoAreStillToCome) {
  Round round(rules_from("update=ssp:2", 2));
  round.join(10, 0);
  EXPECT_EQ(round.offer(from(10, 0, 3)), kApply);
  apply(round, from(10, 0, 3));
  EXPECT_EQ(round.slowest_clock(), 0U);
  EXPECT_FALSE(round.may_read(0, 1));
  round.join(11, 1);
  EXPECT_EQ(round.slowest_clock(), 0U);
  round.leave(11);
  EXPECT_EQ(round.slowest_clock(), 3U);
  // The last worker leaves. The next worker starts at its clock.
  round.leave(10);
  EXPECT_TRUE(round.may_read(0, 99));
  round.join(12, 0);
  EXPECT_EQ(round.slowest_clock(), 3U);
}

TEST(Round, AMemberThatJoinsAgainKeepsItsClock) {
  Round round = crew("update=ssp:2", 2);
  round.advance(10, 4);
  round.advance(11, 6);
  round.join(10, 0);
  EXPECT_EQ(round.slowest_clock(), 4U);
  EXPECT_EQ(round.members(), (Workers{10, 11}));
}

TEST(Round, RatesAreSharedBySamples) {
  const auto weighing = [](Worker worker, std::uint64_t version, double weight) {
    return Offer{.worker = worker, .clock = 1, .version = version, .weight = weight};
  };
  Round round = crew("update=asp:rate=shared", 3);
  // Workers without a gradient count as this one.
  EXPECT_DOUBLE_EQ(round.rate_factor(weighing(10, 0, 8)), 1.0 / 3);
  for (const auto& [worker, weight] : {std::pair(10U, 8.0), {11U, 24.0}, {12U, 32.0}}) {
    const Offer offer = weighing(worker, round.version(), weight);
    EXPECT_EQ(round.offer(offer), kApply);
    apply(round, offer);
  }
  EXPECT_DOUBLE_EQ(round.rate_factor(weighing(10, 3, 8)), 0.125);
  EXPECT_DOUBLE_EQ(round.rate_factor(weighing(12, 3, 32)), 0.5);
  // Its own share follows its own batch, the last one of an epoch for example.
  EXPECT_DOUBLE_EQ(round.rate_factor(weighing(12, 3, 8)), 0.2);
  EXPECT_EQ(round.rate_factor(weighing(12, 3, 0)), 0);
  // A copy knows the weights; a lost worker has no share.
  Round copy = crew("update=asp:rate=shared", 3);
  ASSERT_TRUE(copy.restore(round.encode()));
  EXPECT_DOUBLE_EQ(copy.rate_factor(weighing(10, 3, 8)), 0.125);
  EXPECT_EQ(copy.workers(), 3);
  copy.leave(12);
  EXPECT_DOUBLE_EQ(copy.rate_factor(weighing(10, 3, 8)), 0.25);
  EXPECT_EQ(copy.workers(), 2);
}

// An update with K of N gradients has K/N of the learning rate, for the living workers.
TEST(Round, RoundsOfAnyVersionHaveTheirPartOfTheRate) {
  Round round = crew("update=kasync:2,rate=shared", 4);
  EXPECT_DOUBLE_EQ(round.rate_factor(from(10, 0)), 0.5);
  round.leave(13);
  EXPECT_DOUBLE_EQ(round.rate_factor(from(10, 0)), 2.0 / 3);
  round.leave(12);
  round.leave(11);
  EXPECT_DOUBLE_EQ(round.rate_factor(from(10, 0)), 1);
}

TEST(Round, RatesCountRanksThatHaveNotJoinedYet) {
  Round round(rules_from("update=asp", 4));
  round.join(10, 0);
  EXPECT_DOUBLE_EQ(round.rate_factor(from(10, 0)), 0.25);
  EXPECT_EQ(round.workers(), 4);
}

TEST(Round, RatesAreThoseOfTheRules) {
  Round round = crew("update=asp stale=scale", 4);
  round.set_version(12);
  EXPECT_DOUBLE_EQ(round.rate_factor(from(10, 0)), 0.0625 / 3);
  EXPECT_DOUBLE_EQ(round.rate_factor(from(10, 12)), 0.25);
  EXPECT_DOUBLE_EQ(crew("update=bsp", 4).rate_factor(from(10, 0)), 1);
}

TEST(Round, KbatchAsyncCountsGradientsOfAnyVersion) {
  Round round = crew("update=kbatch:3,async", 2);
  round.set_version(5);
  EXPECT_EQ(round.offer(from(11, 2, 1)), kHold);
  EXPECT_EQ(round.offer(from(10, 5, 1)), kHold);
  EXPECT_TRUE(round.due().nothing());
  EXPECT_EQ(round.offer(from(11, 2, 1)), kHold);  // repeated: counts once
  EXPECT_TRUE(round.due().nothing());
  EXPECT_EQ(round.offer(from(11, 5, 2)), kHold);
  const Round::Due due = round.due();
  EXPECT_EQ(due.counted, (std::vector<Offer>{from(10, 5, 1), from(11, 2, 1), from(11, 5, 2)}));
  EXPECT_TRUE(due.dropped.empty());
  round.applied(due.counted);
  EXPECT_EQ(round.version(), 6U);
  EXPECT_EQ(round.staleness().bins()[0], 2U);
  EXPECT_EQ(round.staleness().bins()[3], 1U);
}

TEST(Round, KasyncTakesOneGradientOfEachOfKWorkers) {
  Round round = crew("update=kasync:2", 3);
  EXPECT_EQ(round.offer(from(10, 0, 1)), kHold);
  EXPECT_EQ(round.offer(from(10, 0, 2)), kHold);  // for the next round
  EXPECT_TRUE(round.due().nothing());
  EXPECT_EQ(round.offer(from(12, 0, 1)), kHold);
  Round::Due due = round.due();
  EXPECT_EQ(due.counted, (std::vector<Offer>{from(10, 0, 1), from(12, 0, 1)}));
  round.applied(due.counted);
  EXPECT_TRUE(round.due().nothing());
  EXPECT_EQ(round.offer(from(11, 0, 1)), kHold);
  due = round.due();
  EXPECT_EQ(due.counted, (std::vector<Offer>{from(10, 0, 2), from(11, 0, 1)}));
  round.applied(due.counted);
  // Fewer than K are left.
  round.leave(10);
  round.leave(11);
  EXPECT_EQ(round.offer(from(12, 1, 2)), kHold);
  EXPECT_EQ(round.due().counted, (std::vector<Offer>{from(12, 1, 2)}));
}

TEST(Round, GradientsThatWaitForAllRanksAreForTheRoundsAfterThat) {
  for (const char* plan : {"update=kasync:1", "update=kbatch:1,async"}) {
    Round round(rules_from(plan, 3));
    round.join(10, 0);
    round.join(11, 1);
    EXPECT_EQ(round.offer(from(10, 0, 1)), kHold);
    EXPECT_EQ(round.offer(from(11, 0, 1)), kHold);
    EXPECT_TRUE(round.due().nothing());
    round.join(12, 2);
    std::vector<Offer> counted;
    for (Round::Due due = round.due(); !due.nothing(); due = round.due()) {
      EXPECT_TRUE(due.dropped.empty());
      ASSERT_EQ(due.counted.size(), 1U);
      counted.push_back(due.counted[0]);
      round.applied(due.counted);
    }
    EXPECT_EQ(counted, (std::vector<Offer>{from(10, 0, 1), from(11, 0, 1)})) << plan;
  }
}

}  // namespace
}  // namespace tally::policy
