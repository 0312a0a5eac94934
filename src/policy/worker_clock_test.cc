#include "policy/worker_clock.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "policy/test_rules.h"

namespace tally::policy {
namespace {

TEST(WorkerClock, ChoosesWhatThePolicySays) {
  struct Case {
    std::string_view plan;
    WorkerClock me;
    bool is_last;
    bool push, pull, one_request, wait_for_push;
    ReadRule read;
  };
  const Case kCases[] = {
      {"update=bsp", {.clock = 5, .version = 5}, false, true, true, true, true, {6, 0}},
      {"update=backup:1", {.clock = 5, .version = 5}, false, true, true, true, true, {6, 0}},
      {"update=kbatch:2", {.clock = 9, .version = 5}, false, true, true, false, false, {5, 0}},
      {"update=asp", {.clock = 5, .version = 30}, false, true, true, true, false, {}},
      {"update=asp:push=4", {.clock = 4}, false, false, true, false, false, {}},
      {"update=asp:push=4", {.clock = 7}, false, true, true, true, false, {}},
      {"update=asp:push=4", {.clock = 4}, true, true, true, true, false, {}},
      {"update=asp:fetch=4", {.clock = 4}, false, true, false, false, false, {}},
      {"update=asp:push=2,fetch=3", {.clock = 5}, false, true, true, true, false, {}},
      {"update=asp:push=2,fetch=3", {.clock = 6}, false, false, false, false, false, {}},
      {"update=kasync:2", {.clock = 9, .version = 5}, false, true, true, false, false, {6, 0}},
      {"update=softsync:2", {.clock = 9, .version = 5}, false, true, true, false, false, {5, 0}},
      {"update=ssp:0", {.clock = 5, .version = 5}, false, true, true, true, true, {6, 0}},
      {"update=ssp:3", {.clock = 5, .cached_clock = 3}, false, true, false, false, false, {0, 3}},
      {"update=ssp:3", {.clock = 5, .cached_clock = 2}, false, true, true, true, false, {0, 3}},
      {"update=ssp:3", {.clock = 5, .cached_clock = 3}, true, true, true, true, false, {0, 3}},
      {"update=ssp:3", {.clock = 1, .cached_clock = 0}, false, true, false, false, false, {}},
  };
  for (const Case& c : kCases) {
    const StepChoice step = next_step(rules_from(c.plan, 4), c.me, c.is_last);
    const std::string where = std::string(c.plan) + " at " + std::to_string(c.me.clock);
    EXPECT_TRUE(step.takes_part) << where;
    EXPECT_EQ(step.push, c.push) << where;
    EXPECT_EQ(step.pull, c.pull) << where;
    EXPECT_EQ(step.one_request, c.one_request) << where;
    EXPECT_EQ(step.wait_for_push, c.wait_for_push) << where;
    EXPECT_EQ(step.apply_locally, !c.pull) << where;
    EXPECT_EQ(step.clock, c.me.clock + 1) << where;
    EXPECT_EQ(step.read, c.read) << where;
  }
}

TEST(WorkerClock, OneThatIsNotDrawnOnlyReads) {
  const Rules rules = rules_from("update=subset:1", 3, 9);
  for (std::uint64_t version = 0; version < 20; ++version) {
    for (int rank = 0; rank < 3; ++rank) {
      const StepChoice step =
          next_step(rules, {.rank = rank, .clock = version, .version = version}, version == 19);
      EXPECT_EQ(step.takes_part, takes_part(rules, rank, version));
      EXPECT_EQ(step.push, step.takes_part);
      EXPECT_EQ(step.one_request, step.takes_part);
      EXPECT_TRUE(step.pull);
      EXPECT_EQ(step.read.least_version, version + 1);
    }
  }
}

TEST(WorkerClock, OneThatJoinsGoesOnWhereTheOthersAre) {
  const Read read{.version = 40, .clock = 12, .newest_version = 41};
  EXPECT_EQ(join(rules_from("update=bsp", 4), 2, read).clock, 40U);
  EXPECT_EQ(join(rules_from("update=ssp:3", 4), 2, read).clock, 12U);
  EXPECT_EQ(join(rules_from("update=kbatch:2", 4), 2, read).clock, 12U);
  const WorkerClock me = join(rules_from("update=asp", 4), 2, read);
  EXPECT_EQ(me.rank, 2);
  EXPECT_EQ(me.version, 40U);
  EXPECT_EQ(me.newest_version, 41U);
  EXPECT_EQ(me.cached_clock, 12U);
  EXPECT_EQ(next_step(rules_from("update=asp", 4), me, false).version, 40U);
  EXPECT_EQ(steps_done(rules_from("update=asp", 4), me), 12U);
  EXPECT_EQ(steps_done(rules_from("update=kbatch:3", 4), me), 40U);
}

TEST(WorkerClock, AccumulatedGradientsAreAsOldAsTheOldest) {
  const Rules rules = rules_from("update=asp:push=3", 4);
  WorkerClock me = join(rules, 0, {.version = 10});
  std::vector<std::uint64_t> pushed;
  for (std::uint64_t i = 1; i <= 6; ++i) {
    const StepChoice step = next_step(rules, me, false);
    if (step.push) pushed.push_back(step.version);
    me = after_step(rules, me, step, {.version = 10 + 5 * i});
  }
  EXPECT_EQ(pushed, (std::vector<std::uint64_t>{10, 25}));
}

TEST(WorkerClock, SspReadsOnceIn1PlusSStepsIfAllKeepPace) {
  const Rules rules = rules_from("update=ssp:3", 2);
  WorkerClock me = join(rules, 0, {});
  std::vector<std::uint64_t> pulled;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const StepChoice step = next_step(rules, me, false);
    if (step.pull) pulled.push_back(step.clock);
    me = after_step(rules, me, step, {.version = 2 * step.clock, .clock = step.clock});
  }
  EXPECT_EQ(pulled, (std::vector<std::uint64_t>{4, 8, 12}));
}

TEST(WorkerClock, OneThatCameTooLateGoesOnAtTheNewVersion) {
  const Rules rules = rules_from("update=backup:1", 4);
  WorkerClock me = join(rules, 0, {.version = 3});
  me = after_step(rules, me, next_step(rules, me, false), {.version = 7, .clock = 3});
  EXPECT_EQ(me.clock, 7U);
  EXPECT_EQ(next_step(rules, me, false).version, 7U);
  // The version read never decreases, and a step without a pull does not change it.
  me = after_step(rules, me, {.clock = 8}, {.version = 2, .clock = 1});
  EXPECT_EQ(me.version, 7U);
  me = after_step(rules, me, {.pull = false, .clock = 9}, {.version = 90, .clock = 90});
  EXPECT_EQ(me.version, 7U);
}

TEST(WorkerClock, KnowsWhenAGradientNeedNotBeFinished) {
  struct Case {
    std::string_view plan;
    std::uint64_t version, newest_read, newest;
    bool has_begun, too_late;
  };
  constexpr Case kCases[] = {
      {"update=backup:1", 5, 5, 5, false, false},
      {"update=backup:1", 5, 5, 6, false, true},
      {"update=backup:1", 5, 5, 6, true, false},
      // One part was already ahead when the worker read; the other parts need this gradient.
      {"update=backup:1", 5, 6, 6, false, false},
      {"update=kbatch:2", 5, 5, 6, false, true},
      {"update=kbatch:2", 5, 6, 6, false, false},
      {"update=bsp", 5, 5, 6, false, false},
      {"update=subset:2", 5, 5, 6, false, false},
      {"update=asp", 5, 5, 90, false, false},
      {"update=kasync:2", 5, 5, 90, false, false},
      {"update=kbatch:2,async", 5, 5, 90, false, false},
      {"update=softsync:2 stale=drop:3", 5, 5, 8, false, false},
      {"update=softsync:2 stale=drop:3", 5, 5, 9, false, true},
      {"update=asp stale=drop:3", 5, 5, 8, false, false},
      {"update=asp stale=drop:3", 5, 5, 9, false, true},
      {"update=asp stale=drop:3", 5, 5, 9, true, false},
  };
  for (const Case& c : kCases) {
    const WorkerClock me =
        join(rules_from(c.plan, 4), 0, {.version = c.version, .newest_version = c.newest_read});
    EXPECT_EQ(is_too_late(rules_from(c.plan, 4), me, c.newest, c.has_begun), c.too_late)
        << c.plan << " " << c.newest;
  }
}

}  // namespace
}  // namespace tally::policy
