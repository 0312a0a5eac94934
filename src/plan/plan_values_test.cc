#include "plan/plan_values.h"

#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "plan/plan.h"

namespace tally::plan {
namespace {

struct PlanValuesCase {
  std::string_view text;  // of update= or stale=, as to_string() prints it
  Plan plan;
};

const PlanValuesCase kPlanValuesCases[] = {
    {"home=server update=asp", {.update = Update::kAsp}},
    {"home=server update=asp:push=4", {.update = Update::kAsp, .push_every = 4}},
    {"home=server update=asp:push=4,fetch=2,rate=full,momentum=kept",
     {.update = Update::kAsp,
      .push_every = 4,
      .fetch_every = 2,
      .rate = RateShare::kFull,
      .kept_momentum = true}},
    {"home=server update=ssp:0", {.update = Update::kSsp}},
    {"home=server update=ssp:3,rate=full",
     {.update = Update::kSsp, .bound = 3, .rate = RateShare::kFull}},
    {"home=server update=asp:rate=shared", {.update = Update::kAsp, .rate = RateShare::kShared}},
    {"home=server update=kasync:2,rate=shared,momentum=kept",
     {.update = Update::kKasync, .batches = 2, .rate = RateShare::kShared, .kept_momentum = true}},
    {"home=server update=kbatch:3,async,rate=full",
     {.update = Update::kKbatch, .batches = 3, .any_version = true, .rate = RateShare::kFull}},
    {"home=server update=kasync:2", {.update = Update::kKasync, .batches = 2}},
    {"home=server update=softsync:4", {.update = Update::kSoftsync, .softness = 4}},
    {"home=server update=ssp:1000000,momentum=kept",
     {.update = Update::kSsp, .bound = 1000000, .kept_momentum = true}},
    {"home=server update=backup:0", {.update = Update::kBackup}},
    {"home=server update=backup:65535", {.update = Update::kBackup, .backups = 65535}},
    {"home=server update=subset:2", {.update = Update::kSubset, .subset = 2}},
    {"home=server update=kbatch:4", {.update = Update::kKbatch, .batches = 4}},
    {"home=server update=average:50",
     {.update = Update::kAverage, .average_every = std::chrono::milliseconds(50)}},
    {"home=server update=local:8", {.update = Update::kLocal, .local_steps = 8}},
    {"home=server update=asp stale=drop:0", {.update = Update::kAsp, .stale = Stale::kDrop}},
    {"home=server update=asp stale=drop:7",
     {.update = Update::kAsp, .stale = Stale::kDrop, .drop_above = 7}},
    {"home=server update=asp stale=compensate:0.04",
     {.update = Update::kAsp, .stale = Stale::kCompensate, .compensation = 0.04}},
    {"home=server update=ssp:3 stale=compensate:2,adaptive",
     {.update = Update::kSsp,
      .stale = Stale::kCompensate,
      .bound = 3,
      .compensation = 2,
      .adaptive = true}},
};

TEST(PlanValues, BecomeFieldsAndAreReadAgain) {
  for (const PlanValuesCase& c : kPlanValuesCases) {
    Plan expected = c.plan;
    expected.home = Home::kServer;
    const auto plan = parse_plan(c.text);
    ASSERT_TRUE(plan) << c.text << ": " << plan.error().message;
    EXPECT_EQ(*plan, expected) << c.text;
    const std::string printed = to_string(*plan);
    EXPECT_NE(printed.find(update_text(expected)), std::string::npos) << printed;
    EXPECT_NE(std::string(c.text).find(update_text(expected)), std::string::npos) << printed;
    const auto again = parse_plan(printed);
    ASSERT_TRUE(again) << printed << ": " << again.error().message;
    EXPECT_EQ(*again, *plan) << printed;
  }
}

TEST(PlanValues, WhatAWordDoesNotTakeIsRefusedWithWhatItDoes) {
  struct Refusal {
    std::string_view text, message;
  };
  constexpr Refusal kRefusals[] = {
      {"update=ssp", "update=ssp: ssp takes a number, as in ssp:3"},
      {"update=ssp:x", "update=ssp:x: 'x' is not a number"},
      {"update=ssp:", "update=ssp:: ':' cannot follow ssp"},
      {"update=ssp:,rate=full", "update=ssp:,rate=full: '' is not a number"},
      {"update=ssp:-1", "update=ssp:-1: '-1' is not a whole number from 0"},
      {"update=ssp:1.5", "update=ssp:1.5: '1.5' is not a whole number from 0"},
      {"update=ssp:1000001", "update=ssp:1000001: 1000001 is not from 0 to 1000000"},
      {"update=ssp:3,",
       "update=ssp:3,: '' is no setting of ssp; nearest: rate=full (known: "
       "rate=shared, rate=full, momentum=kept)"},
      {"update=ssp:3,rate=half",
       "update=ssp:3,rate=half: 'rate=half' is no setting of ssp; "
       "nearest: rate=full (known: rate=shared, rate=full, momentum=kept)"},
      {"update=ssp:3,rate=full,rate=full", "update=ssp:3,rate=full,rate=full: rate is given twice"},
      {"update=ssp:3,rate=full,rate=shared",
       "update=ssp:3,rate=full,rate=shared: rate is given twice"},
      {"update=kasync", "update=kasync: kasync takes a number, as in kasync:2"},
      {"update=softsync:0", "update=softsync:0: 0 is not from 1 to 65536"},
      {"update=kbatch:2,rate=full",
       "update=kbatch:2,rate=full needs async: without it every update has the whole learning "
       "rate and momentum; nearest: update=kbatch:2,async,rate=full, or update=kbatch:2"},
      {"update=kbatch:2,momentum=kept",
       "update=kbatch:2,momentum=kept needs async: without it every update has the whole learning "
       "rate and momentum; nearest: update=kbatch:2,async,momentum=kept, or update=kbatch:2"},
      {"update=asp:push=2,push=2", "update=asp:push=2,push=2: push is given twice"},
      {"update=asp:push=0", "update=asp:push=0: 0 is not from 1 to 1000000"},
      {"update=asp:push", "update=asp:push: '' is not a number"},
      {"update=asp:pusch=3",
       "update=asp:pusch=3: 'pusch=3' is no setting of asp; nearest: push "
       "(known: push, fetch, rate=shared, rate=full, momentum=kept)"},
      {"update=backup:1,rate=full",
       "update=backup:1,rate=full: backup takes one number and nothing else"},
      {"update=subset:0", "update=subset:0: 0 is not from 1 to 65536"},
      {"update=kbatch:0", "update=kbatch:0: 0 is not from 1 to 65536"},
      {"update=average:0", "update=average:0: 0 is not from 1 to 3600000"},
      {"update=local", "update=local: local takes a number, as in local:8"},
      {"stale=drop", "stale=drop: drop takes a number, as in drop:4"},
      {"stale=compensate:-1", "stale=compensate:-1: -1 is not from 0 to 1000000"},
      {"stale=compensate:inf", "stale=compensate:inf: 'inf' is not a number"},
      {"stale=compensate:1,adaptiv",
       "stale=compensate:1,adaptiv: 'adaptiv' is no setting of compensate; nearest: adaptive "
       "(known: adaptive)"},
  };
  for (const Refusal& c : kRefusals) {
    const auto plan = parse_plan(c.text, {.home = Home::kServer});
    ASSERT_FALSE(plan) << c.text;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plan.error().message, c.message);
  }
}

// check() applies to a Plan that code fills in just as to a parsed one.
TEST(PlanValues, CheckRefusesNumbersOutOfRangeOrOfOtherAnswers) {
  const Plan plans[] = {
      {.home = Home::kServer, .update = Update::kSsp, .bound = 1000001},
      {.home = Home::kServer, .update = Update::kAsp, .push_every = 0},
      {.home = Home::kServer, .update = Update::kKbatch},
      {.update = Update::kSubset},
      {.update = Update::kAverage},
      {.update = Update::kLocal},
      {.update = Update::kBackup, .backups = std::numeric_limits<std::uint64_t>::max()},
      {.home = Home::kServer,
       .update = Update::kAsp,
       .stale = Stale::kCompensate,
       .compensation = std::numeric_limits<double>::quiet_NaN()},
      {.bound = 3},
      {.rate = RateShare::kFull},
      {.home = Home::kServer, .update = Update::kAsp, .rate = static_cast<RateShare>(3)},
      {.home = Home::kServer, .update = Update::kAsp, .any_version = true},
      {.home = Home::kServer, .update = Update::kSsp, .push_every = 2},
      {.adaptive = true},
  };
  for (const Plan& plan : plans) EXPECT_FALSE(check(plan)) << to_string(plan);
  EXPECT_EQ(check(Plan{.bound = 3}).error().message,
            "a number is set that 'home=group update=bsp codec=none stale=keep split=data "
            "data=partition' does not take");
}

}  // namespace
}  // namespace tally::plan
