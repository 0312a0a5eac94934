#include "train/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tally::train {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Straggler = Disturbance::Straggler;
using Delay = Disturbance::Delay;

TEST(Disturbance, StragglersAreReadInAnyOrder) {
  EXPECT_EQ(*parse_stragglers(""), std::vector<Straggler>());
  EXPECT_EQ(*parse_stragglers("rank=1,factor=4"), (std::vector<Straggler>{{1, 4}}));
  EXPECT_EQ(*parse_stragglers("factor=1.5, rank=0; rank=3,factor=2"),
            (std::vector<Straggler>{{0, 1.5}, {3, 2}}));
}

TEST(Disturbance, WhatIsNoStragglerIsRefusedWithWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"rank=1", "factor=4"},
      {"factor=2", "rank=1"},
      {"rank=-1,factor=2", "rank=1"},
      {"rank=1x,factor=2", "rank=1"},
      {"rank=1,factor=0.5", "from 1 to 1000"},
      {"rank=1,factor=nan", "from 1 to 1000"},
      {"rank=1,factor=1e9", "from 1 to 1000"},
      {"worker=1,factor=2", "found 'worker'"},
      {"rank=1,factor=2;rank=1,factor=3", "rank 1 is there twice"},
      {"4", "found '4'"},
  };
  for (const auto& [text, complaint] : cases) {
    const auto parsed = parse_stragglers(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(parsed.error().message, HasSubstr(complaint)) << text;
  }
}

TEST(Disturbance, DelaysAreTimesOrMultiplesOfTheComputing) {
  EXPECT_FALSE(parse_delay("")->has_value());
  EXPECT_EQ(**parse_delay("exponential:20ms"),
            (Delay{.exponential = true, .mean = milliseconds(20)}));
  EXPECT_EQ(**parse_delay("constant:1.5s"), (Delay{.mean = milliseconds(1500)}));
  EXPECT_EQ(**parse_delay("exponential:1x"), (Delay{.exponential = true, .of_compute = 1}));
  for (const char* text :
       {"exponential", "exponential:", "exponential:0ms", "exponential:x", "exponential:-1x",
        "exponential:20", "uniform:20ms", "20ms", "constant:3h", "constant:infx"}) {
    const auto parsed = parse_delay(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr(text));
  }
}

TEST(Disturbance, AStragglersStepTakesSoManyTimesItsComputing) {
  const Disturbance disturbance{.stragglers = {{1, 4}}, .delay = {}};
  EXPECT_EQ(sleep_of(disturbance, 1, 7, milliseconds(10)), milliseconds(30));
  EXPECT_EQ(sleep_of(disturbance, 0, 7, milliseconds(10)), Duration::zero());
  EXPECT_TRUE(Disturbance().is_none());
  EXPECT_FALSE(disturbance.is_none());
}

TEST(Disturbance, AConstantDelayIsAddedToEveryStep) {
  const Disturbance disturbance{.stragglers = {{1, 2}}, .delay = Delay{.mean = milliseconds(5)}};
  EXPECT_EQ(sleep_of(disturbance, 0, 3, milliseconds(10)), milliseconds(5));
  EXPECT_EQ(sleep_of(disturbance, 1, 3, milliseconds(10)), milliseconds(15));
}

// Mean and standard deviation of an exponential distribution are equal; about a third of the draws
// exceed the mean.
TEST(Disturbance, ExponentialDelaysHaveTheirMeanAndSpread) {
  const Disturbance disturbance{.stragglers = {},
                                .delay = Delay{.exponential = true, .of_compute = 1}};
  constexpr int kDraws = 20000;
  double sum = 0;
  double squares = 0;
  int longer = 0;
  for (int step = 0; step < kDraws; ++step) {
    const Duration sleep =
        sleep_of(disturbance, step % 4, static_cast<std::uint64_t>(step), milliseconds(10));
    const double value = std::chrono::duration<double, std::milli>(sleep).count();
    sum += value;
    squares += value * value;
    if (value > 10) ++longer;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 10, 0.3);
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 10, 0.4);
  EXPECT_NEAR(static_cast<double>(longer) / kDraws, std::exp(-1), 0.02);
}

TEST(Disturbance, DrawsDependOnSeedRankAndStepAlone) {
  const Delay delay{.exponential = true, .mean = milliseconds(10)};
  const Disturbance one{.stragglers = {}, .delay = delay, .seed = 1};
  const Disturbance two{.stragglers = {}, .delay = delay, .seed = 2};
  const auto of = [](const Disturbance& which, Rank rank, std::uint64_t step) {
    return sleep_of(which, rank, step, milliseconds(1));
  };
  EXPECT_EQ(of(one, 0, 5), of(one, 0, 5));
  EXPECT_NE(of(one, 0, 5), of(one, 0, 6));
  EXPECT_NE(of(one, 0, 5), of(one, 1, 5));
  EXPECT_NE(of(one, 0, 5), of(two, 0, 5));
}

}  // namespace
}  // namespace tally::train
