#include "apps/train/train_console.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tally::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const ProgressFacts kFacts{.epochs = 2.93,
                           .epoch_count = 8,
                           .step = 1100,
                           .step_count = 3752,
                           .loss = 0.41234,
                           .accuracy = 0.861,
                           .units_per_s = 12345,
                           .shares = {0.8, 0.12, 0.05, 0.03},
                           .left = seconds(42)};

const std::string kFull =
    "epoch 3/8  step 1100/3752  loss 0.4123  accuracy 86.10 %  12.3k samples/s  "
    "compute 80 %, communicate 12 %, wait 5 %, data 3 %  left 0:42";
const std::string kShort =
    "epoch 3/8 step 1100/3752 loss 0.4123 acc 86.1% 12.3k/s "
    "compute 80% comm 12% wait 5% data 3% left 0:42";
const std::string kShortest = "epoch 3/8 step 1100/3752 loss 0.4123 acc 86.1% 12.3k/s left 0:42";

TEST(ProgressLine, TellsAllWhereThereIsRoom) {
  EXPECT_EQ(progress_line(kFacts, 0), kFull);
  EXPECT_EQ(progress_line(kFacts, 200), "#######................. " + kFull);
  EXPECT_EQ(progress_line(kFacts, static_cast<int>(kFull.size()) + 10), "##...... " + kFull);
}

TEST(ProgressLine, IsShortWhereThereIsNot) {
  EXPECT_EQ(progress_line(kFacts, static_cast<int>(kFull.size()) + 9),
            "#######................. " + kShort);
  EXPECT_EQ(progress_line(kFacts, 80), "####.......... " + kShortest);
  EXPECT_EQ(progress_line(kFacts, 70), kShortest);
  EXPECT_EQ(progress_line(kFacts, 30), "epoch 3/8 step 1100/3752");
  EXPECT_EQ(progress_line(kFacts, 3), "");
}

TEST(ProgressLine, FitsEveryTerminal) {
  for (int columns = 1; columns < 250; ++columns)
    EXPECT_LT(progress_line(kFacts, columns).size(), static_cast<std::size_t>(columns));
}

TEST(ProgressLine, HasAFullBarAtTheEnd) {
  ProgressFacts facts = kFacts;
  facts.step = facts.step_count;
  EXPECT_EQ(progress_line(facts, 80).substr(0, 15), "############## ");
  facts.step_count = facts.step = 0;
  EXPECT_EQ(progress_line(facts, 80).substr(0, 4), "....");
}

TEST(ProgressLine, HasColourAndBlocksWhereTheTerminalHasThem) {
  const std::string rest = kShortest;
  EXPECT_EQ(progress_line(kFacts, 75, {.colour = true, .blocks = true}),
            "\x1b[32m\u2588\u2588\x1b[0m\u2591\u2591\u2591\u2591\u2591\u2591\u2591 " + rest);
  EXPECT_EQ(progress_line(kFacts, 75, {.colour = false, .blocks = true}),
            "\u2588\u2588\u2591\u2591\u2591\u2591\u2591\u2591\u2591 " + rest);
}

TEST(TerminalStyle, IsThatOfTheUsualVariables) {
  using Variables = std::map<std::string, std::string>;
  const auto style = [](const Variables& variables) {
    return style_of([&variables](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_TRUE(style({}).colour);
  EXPECT_TRUE(style({{"NO_COLOR", ""}}).colour);
  EXPECT_FALSE(style({{"NO_COLOR", "1"}}).colour);
  EXPECT_FALSE(style({}).blocks);
  EXPECT_TRUE(style({{"LANG", "en_GB.UTF-8"}}).blocks);
  EXPECT_TRUE(style({{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}).blocks);
  EXPECT_FALSE(style({{"LC_ALL", "C"}, {"LANG", "en_GB.UTF-8"}}).blocks);
}

TEST(Wrapped, BreaksAtSpacesAndIndentsTheRest) {
  EXPECT_EQ(wrapped("plan home=group update=bsp", 0), "plan home=group update=bsp");
  EXPECT_EQ(wrapped("plan home=group update=bsp", 27), "plan home=group update=bsp");
  EXPECT_EQ(wrapped("plan home=group update=bsp", 26), "plan home=group\n    update=bsp");
  EXPECT_EQ(wrapped("aaaaaaaaaa b c", 5), "aaaaaaaaaa\n    b\n    c");
}

TEST(ProgressLine, CountsNoEpochBeyondTheLast) {
  ProgressFacts facts = kFacts;
  facts.epochs = 8;
  facts.accuracy.reset();
  EXPECT_EQ(progress_line(facts, 30), "epoch 8/8 step 1100/3752");
  facts.epoch_count = 0;
  EXPECT_EQ(progress_line(facts, 30), "epoch 9 step 1100/3752");
}

TEST(EvaluationLine, LeavesOutWhatIsNotKnown) {
  EvaluationFacts facts{
      .epochs = 1, .step = 469, .test_loss = 0.49871, .elapsed = milliseconds(9100)};
  EXPECT_EQ(evaluation_line(facts), "epoch 1     step 469     test loss 0.4987  after 0:09");
  facts.train_loss = 0.7;
  facts.accuracy = 0.82134;
  EXPECT_EQ(
      evaluation_line(facts),
      "epoch 1     step 469     train loss 0.7000  test loss 0.4987  accuracy 82.13 %  after 0:09");
  facts.train_loss.reset();
  facts.auc = 0.93006;
  EXPECT_EQ(evaluation_line(facts),
            "epoch 1     step 469     test loss 0.4987  accuracy 82.13 %  AUC 0.9301  after 0:09");
  EXPECT_EQ(evaluation_line({.epochs = 12345, .step = 9, .test_loss = 1, .rmse = 45230.6}),
            "epoch 12345 step 9       test loss 1.0000  RMSE 45231  after 0:00");
}

TEST(Texts, AreAsPeopleReadThem) {
  EXPECT_EQ(clock_text(seconds(42)), "0:42");
  EXPECT_EQ(clock_text(seconds(725)), "12:05");
  EXPECT_EQ(clock_text(seconds(10809)), "3:00:09");
  EXPECT_EQ(short_count(950.4), "950");
  EXPECT_EQ(short_count(9999.4), "9999");
  EXPECT_EQ(short_count(12345), "12.3k");
  EXPECT_EQ(short_count(999600), "1.00M");
  EXPECT_EQ(short_count(123456789), "123M");
}

TEST(SharesOf, AddUpToOneOrAreNothing) {
  const TimeShares shares = shares_of(seconds(6), seconds(2), seconds(1), seconds(1));
  EXPECT_DOUBLE_EQ(shares.compute, 0.6);
  EXPECT_DOUBLE_EQ(shares.data, 0.1);
  EXPECT_EQ(shares_of({}, {}, {}, {}).compute, 0);
}

}  // namespace
}  // namespace tally::app
