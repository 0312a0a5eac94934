#include "tally/rate_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace tally {
namespace {

RateSchedule parsed(std::string_view text, std::uint64_t total_steps = 100) {
  auto schedule = RateSchedule::parse(text, total_steps);
  EXPECT_TRUE(schedule) << text;
  return schedule ? *schedule : RateSchedule();
}

TEST(RateSchedule, FollowsItsClosedForm) {
  struct Case {
    std::string_view text;
    std::uint64_t step;
    double factor;
  };
  const double eighth_turn = std::sqrt(0.5);
  const Case cases[] = {
      {"constant", 0, 1},
      {"constant", 1'000'000'000, 1},
      {"step:every=30", 29, 1},
      {"step:every=30", 30, 0.1},
      {"step:every=30,factor=0.5", 95, 0.125},
      {"multistep:at=10;20", 9, 1},
      {"multistep:at=10;20", 10, 0.1},
      {"multistep:at=10;20,factor=0.5", 19, 0.5},
      {"multistep:at=10;20,factor=0.5", 20, 0.25},
      {"cosine", 0, 1},
      {"cosine", 25, 0.5 + eighth_turn / 2},
      {"cosine", 50, 0.5},
      {"cosine", 100, 0},
      {"cosine", 500, 0},
      {"cosine:min=0.2", 50, 0.6},
      {"cosine:min=0.2", 100, 0.2},
      {"cosine:total=10", 5, 0.5},
      {"linear", 0, 1},
      {"linear", 25, 0.75},
      {"linear", 99, 0.01},
      {"linear", 101, 0},
      {"linear:min=0.5", 50, 0.75},
      {"onecycle", 0, 1.0 / 25},
      {"onecycle", 29, 1},
      {"onecycle", 99, 1 / 25e4},
      {"onecycle", 1000, 1 / 25e4},
      {"onecycle:peak=0.5,start=2,total=21", 0, 0.5},
      // The peak lies at 9.5, between steps 9 and 10.
      {"onecycle:peak=0.5,start=2,total=21", 9,
       1 - 0.25 * (1 + std::cos(std::numbers::pi * 9 / 9.5))},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(parsed(c.text).factor(c.step), c.factor, 1e-15) << c.text << " at " << c.step;
  }
}

TEST(RateSchedule, WarmsUpAlongALineToTheFullRate) {
  const RateSchedule plain = parsed("constant:warmup=10");
  for (std::uint64_t step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(plain.factor(step), 0.1 * static_cast<double>(step + 1));
  }
  EXPECT_EQ(plain.factor(10), 1);

  // A schedule with an end uses the steps after the warm-up.
  const RateSchedule cosine = parsed("cosine:min=0.1,warmup=20");
  EXPECT_EQ(cosine.factor(19), 1);
  EXPECT_EQ(cosine.factor(20), 1);
  EXPECT_NEAR(cosine.factor(60), 0.55, 1e-15);
  EXPECT_NEAR(cosine.factor(100), 0.1, 1e-15);

  // The warm-up does not move named steps.
  EXPECT_EQ(parsed("multistep:at=30,warmup=20").factor(29), 1);
  EXPECT_EQ(parsed("multistep:at=30,warmup=20").factor(30), 0.1);
}

TEST(RateSchedule, ACustomOneIsItsFunction) {
  const RateSchedule schedule = RateSchedule::custom(
      [](std::uint64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); });
  EXPECT_EQ(schedule.factor(0), 1);
  EXPECT_EQ(schedule.factor(3), 0.25);
  EXPECT_EQ(schedule.text(), "custom");
}

TEST(RateSchedule, PlateauFallsWhenNothingIsBetterForLongerThanItsPatience) {
  RateSchedule schedule = parsed("plateau:factor=0.5,patience=2,threshold=0.1,min=0.2");
  schedule.observe(1.0);
  EXPECT_EQ(schedule.factor(7), 1);
  // Lower, but by less than a tenth.
  for (const double metric : {0.95, 0.91}) schedule.observe(metric);
  EXPECT_EQ(schedule.factor(7), 1);
  schedule.observe(0.905);
  EXPECT_EQ(schedule.factor(7), 0.5);
  schedule.observe(0.8);
  for (const double metric : {0.8, std::numeric_limits<double>::quiet_NaN(), 0.9}) {
    schedule.observe(metric);
  }
  EXPECT_EQ(schedule.factor(7), 0.25);
  for (int i = 0; i < 30; ++i) schedule.observe(0.8);
  EXPECT_EQ(schedule.factor(7), 0.2);
}

TEST(RateSchedule, OnlyPlateauLooksAtObservations) {
  RateSchedule schedule = parsed("linear");
  for (int i = 0; i < 100; ++i) schedule.observe(1);
  EXPECT_EQ(schedule.factor(50), 0.5);
  EXPECT_EQ(schedule.state(), "");
  EXPECT_TRUE(schedule.restore(""));
  EXPECT_FALSE(schedule.restore("plateau:worse=0,level=1"));
}

TEST(RateSchedule, RestoredItGoesOnAsIfNeverStopped) {
  constexpr std::string_view kText = "plateau:factor=0.3,patience=1,warmup=3";
  RateSchedule whole = parsed(kText);
  RateSchedule before = parsed(kText);
  constexpr double kMetrics[] = {1.0 / 3, 0.5, 0.4, 0.6, 0.2, 0.3, 0.3, 0.3, 0.1};
  int seen = 0;
  for (const double metric : kMetrics) {
    RateSchedule after = parsed(kText);
    ASSERT_TRUE(after.restore(before.state())) << before.state();
    whole.observe(metric);
    after.observe(metric);
    EXPECT_EQ(after.state(), whole.state()) << ++seen;
    EXPECT_EQ(after.factor(9), whole.factor(9));
    before = after;
  }
  EXPECT_LT(whole.factor(9), 1);
}

TEST(RateSchedule, AStateThatDoesNotFitChangesNothing) {
  RateSchedule schedule = parsed("plateau:patience=0");
  schedule.observe(1);
  schedule.observe(1);
  const std::string state = schedule.state();
  for (const std::string_view bad :
       {"", "cosine", "plateau:worse=1", "plateau:level=1", "plateau:worse=-1,level=1",
        "plateau:worse=1,level=2", "plateau:worse=1,level=x", "plateau:worse=1,level=1,more=1"}) {
    const auto result = schedule.restore(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(schedule.state(), state);
  }
}

TEST(RateSchedule, PrintedAndReadAgainItIsTheSame) {
  constexpr std::string_view kTexts[] = {"constant",
                                         "constant:warmup=100",
                                         "step:every=30",
                                         "step:every=30,factor=0.5,warmup=5",
                                         "multistep:at=100;200,factor=0.3",
                                         "cosine:min=0.01,warmup=10,total=1000",
                                         "linear",
                                         "onecycle:peak=0.25,start=10,end=100",
                                         "plateau:factor=0.5,min=0.01,patience=3,threshold=0.001"};
  for (const std::string_view text : kTexts) {
    const RateSchedule schedule = parsed(text);
    EXPECT_EQ(schedule.text(), text);
    const RateSchedule again = parsed(schedule.text());
    for (const std::uint64_t step : {0, 3, 50, 99, 150}) {
      EXPECT_EQ(again.factor(step), schedule.factor(step)) << text;
    }
  }
  EXPECT_EQ(parsed("onecycle:peak=0.3,start=25,end=1e4").text(), "onecycle");
  EXPECT_EQ(RateSchedule().text(), "constant");
}

TEST(RateSchedule, WhatIsWrongIsNamed) {
  struct Case {
    std::string_view text, message;
    std::uint64_t total_steps = 100;
  };
  constexpr Case kCases[] = {
      {"cosin",
       "'cosin' is no rate schedule; nearest: cosine (known: constant, step, multistep, cosine, "
       "linear, onecycle, plateau)"},
      {"cosine:mim=0.1", "'mim' is no setting of cosine; nearest: min (known: min, warmup, total)"},
      {"constant:total=5", "'total' is no setting of constant; nearest: warmup (known: warmup)"},
      {"step", "step needs every=N, in steps"},
      {"step:every=0", "every is 0, must be 1 or more"},
      {"step:every=1.5", "every: '1.5' is not a whole number from 0"},
      {"step:every=3,factor=2", "factor is 2, must be from 0 to 1"},
      {"multistep", "multistep needs at=N;N, in steps"},
      {"multistep:at=5;5", "at: step 5 does not come after 5"},
      {"multistep:at=5;", "at: '' is not a whole number from 0"},
      {"cosine:min=no", "min: 'no' is not a number"},
      {"cosine", "cosine needs total=N, the steps until its end", 0},
      {"cosine:warmup=100", "warmup of 100 steps leaves nothing of 100 for cosine"},
      {"onecycle:peak=1", "peak of onecycle is a share of the steps above 0 and below 1"},
  };
  for (const Case& c : kCases) {
    const auto schedule = RateSchedule::parse(c.text, c.total_steps);
    ASSERT_FALSE(schedule) << c.text;
    EXPECT_EQ(schedule.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(schedule.error().message, c.message);
  }
}

}  // namespace
}  // namespace tally
