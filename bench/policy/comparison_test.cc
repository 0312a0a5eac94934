#include "bench/policy/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench {
namespace {

using testing::HasSubstr;

const std::vector<PolicyPoint> kCurve = {{1, 2.0}, {2, 1.0}, {4, 0.5}, {5, 0.6}};

TEST(PolicyComparison, TheTimeToALossLiesBetweenEvaluations) {
  EXPECT_EQ(time_to(kCurve, 2.5), 1);
  EXPECT_EQ(time_to(kCurve, 1.5), 1.5);
  EXPECT_EQ(time_to(kCurve, 0.75), 3);
  EXPECT_EQ(time_to(kCurve, 0.5), 4);
  EXPECT_EQ(time_to(kCurve, 0.4), std::nullopt);
  EXPECT_EQ(time_to({}, 1), std::nullopt);
}

TEST(PolicyComparison, TheLossAtAShareOfTheTimeLiesBetweenEvaluations) {
  EXPECT_EQ(loss_at(kCurve, 0.1), 2.0);
  EXPECT_EQ(loss_at(kCurve, 0.6), 0.75);
  EXPECT_EQ(loss_at(kCurve, 1), 0.6);
}

TEST(PolicyComparison, ReadsWhatATrainingHasWritten) {
  const auto run = read_policy_run(
      R"({"elapsed_s":3.5,"steps_per_s":20,"accuracy":0.9,"dropped_gradients":7,"staleness":[1,2,1],
          "points":[{"step":1,"at_s":0.5,"train_loss":2},{"step":2,"at_s":1,"test_loss":1.5}]})");
  ASSERT_TRUE(run.has_value());
  ASSERT_EQ(run->points.size(), 1U);
  EXPECT_EQ(run->points[0].test_loss, 1.5);
  EXPECT_EQ(run->mean_staleness, 1);
  EXPECT_EQ(run->dropped, 7U);
  for (const char* text : {"", "{}", "[1]", R"({"elapsed_s":"x"})"})
    EXPECT_EQ(read_policy_run(text).error().code, ErrorCode::kCorrupt) << text;
}

TEST(PolicyComparison, GainsAreOverTheFirstPlanOfTheSameScenario) {
  const std::vector<PolicyScenario> scenarios = {{"calm", "", ""}, {"slow", "", ""}};
  const std::vector<PolicyContender> contenders = {{"bsp", ""}, {"asp", ""}};
  const auto run = [](double factor, double accuracy) {
    PolicyRun made{.accuracy = accuracy};
    for (const PolicyPoint& point : kCurve)
      made.points.push_back({point.at_s * factor, point.test_loss});
    return made;
  };
  const auto results = compare_policies(
      scenarios, contenders, {run(1, 0.9), run(1, 0.9), run(4, 0.9), run(2, 0.89)}, 0.75);
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[2].to_target_s, 12);
  EXPECT_EQ(results[2].gain, 1);
  EXPECT_EQ(results[3].gain, 2);
  EXPECT_NEAR(results[3].accuracy_difference, -1, 1e-9);
  EXPECT_THAT(policy_table(results, 0.75),
              HasSubstr("slow            asp                  6.00    2.00"));
}

}  // namespace
}  // namespace tally::bench
