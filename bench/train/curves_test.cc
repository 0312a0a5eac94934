#include "bench/train/curves.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench::train {
namespace {

using ::testing::HasSubstr;

Curve curve(const std::string& name, std::vector<double> losses) {
  return {.name = name, .losses = std::move(losses)};
}

TEST(Curves, AgreementIsTheLargestRelativeDifference) {
  const Curve mine = curve("tally", {2.0, 1.0, 0.5});
  struct Case {
    std::vector<double> other;
    double difference;
  };
  for (const Case& c : {Case{{2.0, 1.0, 0.5}, 0}, Case{{2.0, 1.0, 0.50004}, 0.00004 / 0.50004},
                        Case{{2.0001, 1.00005, 0.5}, 0.0001 / 2.0001}}) {
    const auto result = agreement(mine, {curve("ddp", c.other)});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_NEAR(*result, c.difference, 1e-12);
  }
  EXPECT_TRUE(agreement(mine, {}));
}

TEST(Curves, DifferencesAreNamedWithStepAndWhoHasThem) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::vector<double> mine;
    std::vector<double> other;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{2.0, 1.0},
       {2.0, 1.001},
       "at step 2 the loss of tally is 1, that of ddp 1.001: 1.0e-03 apart"},
      {{2.0, 1.0}, {2.0, -1.0}, "at step 2"},
      {{2.0, 1.0}, {2.0}, "ddp: the loss stays at 2: nothing was learned"},
      {{2.0, 1.0}, {2.0, 1.0, 0.5}, "tally has 2 losses, ddp has 3"},
      {{2.0, kNan}, {2.0, 1.0}, "tally: the loss of step 2 is nan"},
      {{2.0, 1.0}, {kNan, 1.0}, "ddp: the loss of step 1 is nan"},
      {{2.0, 1.0}, {}, "ddp has no losses"},
      {{2.0, 1.999}, {2.0, 1.999}, "tally: the loss stays at 1.999: nothing was learned"},
  };
  for (const Case& c : cases) {
    const auto result = agreement(curve("tally", c.mine), {curve("ddp", c.other)});
    ASSERT_FALSE(result) << c.message;
    EXPECT_EQ(result.error().code, ErrorCode::kMismatch);
    EXPECT_THAT(result.error().message, HasSubstr(c.message));
  }
}

// The losses that most curves have are right.
TEST(Curves, TheMajorityJudges) {
  const Curve good = curve("plain", {2.0, 1.0});
  const Curve also_good = curve("tally", {2.0, 1.00001});
  const Curve bad = curve("ddp", {2.0, 1.1});
  const auto verdicts = judge({bad, good, also_good}, 1e-4);
  ASSERT_EQ(verdicts.size(), 3U);
  ASSERT_FALSE(verdicts[0]);
  EXPECT_THAT(verdicts[0].error().message,
              HasSubstr("at step 2 the loss of ddp is 1.1, that of plain 1"));
  ASSERT_TRUE(verdicts[1]);
  ASSERT_TRUE(verdicts[2]);
  EXPECT_NEAR(*verdicts[1], 1e-5, 1e-9);
  EXPECT_NEAR(*verdicts[2], 1e-5, 1e-9);
}

TEST(Curves, NobodyIsRightWithoutAnotherThatAgrees) {
  const Curve one = curve("plain", {2.0, 1.0});
  for (const auto& verdict : judge({one, curve("tally", {2.0, 1.1})}, 1e-4)) EXPECT_FALSE(verdict);
  const auto alone = judge({one}, 1e-4);
  ASSERT_EQ(alone.size(), 1U);
  ASSERT_FALSE(alone[0]);
  EXPECT_THAT(alone[0].error().message, HasSubstr("no losses to compare with"));
  EXPECT_TRUE(judge({}, 1e-4).empty());
}

TEST(Curves, GpusAndBfloat16AreAllowedMore) {
  EXPECT_EQ(tolerance_of("cpu", "float32"), kTolerance);
  EXPECT_GT(tolerance_of("cuda", "float32"), tolerance_of("cpu", "float32"));
  EXPECT_GT(tolerance_of("cpu", "bfloat16"), tolerance_of("cuda", "float32"));
}

}  // namespace
}  // namespace tally::bench::train
