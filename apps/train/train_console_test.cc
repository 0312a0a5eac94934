#include "apps/train/train_console.h"

#include <gtest/gtest.h>

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

TEST(ProgressLine, TellsAllWhereThereIsRoom) {
  const std::string full =
      "epoch 3/8  step 1100/3752  loss 0.4123  accuracy 86.10 %  12.3k samples/s  "
      "compute 80 %, communicate 12 %, wait 5 %, data 3 %  left 0:42";
  EXPECT_EQ(progress_line(kFacts, 0), full);
  EXPECT_EQ(progress_line(kFacts, static_cast<int>(full.size()) + 1), full);
}

TEST(ProgressLine, IsShortWhereThereIsNot) {
  EXPECT_EQ(progress_line(kFacts, 80),
            "epoch 3/8 step 1100/3752 loss 0.4123 acc 86.1% 12.3k/s 80/12/5/3% left 0:42");
  EXPECT_EQ(progress_line(kFacts, 30), "epoch 3/8 step 1100/3752");
  EXPECT_EQ(progress_line(kFacts, 3), "");
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
