#include "apps/train/training_log.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tally::app {
namespace {

using namespace std::chrono_literals;

// The loss of step s is s, so a mean over other steps than those of its interval would differ.
TEST(TrainingLog, AnEvaluationDoesNotShortenTheIntervalOfTheTrainingLoss) {
  TrainingLog log{TrainingRecord{}};
  for (std::uint64_t step = 1; step <= 20; ++step) {
    log.step(static_cast<double>(step), 10, 10);
    if (step % 10 == 0) log.point({.steps = step}, 0, 100ms * step, 0.5);
    if (step == 11) log.evaluation({.steps = step}, 1, {1100ms, 1150ms}, {.loss = 7});
  }
  const auto& points = log.record().points;
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].train_loss, 5.5);
  EXPECT_FALSE(points[1].train_loss || points[1].samples_per_s);
  EXPECT_EQ(points[1].test_loss, 7);
  EXPECT_EQ(points[2].train_loss, 15.5);
  EXPECT_EQ(points[2].rate, 0.5);
}

TEST(TrainingLog, TheTimeOfAnEvaluationDoesNotCountForTheSpeed) {
  TrainingLog log{TrainingRecord{}};
  log.step(1, 100, 100);
  log.evaluation({.steps = 1}, 0, {1s, 4s}, {.loss = 1});
  log.step(1, 100, 100);
  log.point({.steps = 2}, 0, 5s, 0.1);
  EXPECT_EQ(log.record().points.back().samples_per_s, 100);
}

// A short last batch has fewer samples, and counts for less.
TEST(TrainingLog, TheLossIsAMeanOverSamples) {
  TrainingLog log{TrainingRecord{}};
  log.step(1, 30, 30);
  log.step(5, 10, 10);
  log.point({.steps = 2}, 0, 1s, 0.1);
  EXPECT_EQ(log.record().points.back().train_loss, 2);
}

TEST(TrainingLog, TheLastTrainingLossIsThatSinceTheEvaluationBefore) {
  TrainingLog log{TrainingRecord{}};
  log.step(9, 1, 1);
  log.evaluation({.steps = 1}, 0, {1s, 1s}, {.loss = 1, .accuracy = 0.75});
  log.step(2, 1, 1);
  log.step(4, 1, 1);
  log.evaluation({.steps = 3}, 0, {2s, 2s}, {.loss = 1, .accuracy = 0.5});
  const TrainingRecord& record = log.finish({.steps = 3}, 1, 2s, StopReason::kCompleted);
  EXPECT_EQ(record.train_loss, 3);
  EXPECT_EQ(record.accuracy, 0.5);
  EXPECT_EQ(record.best_accuracy, 0.75);
}

TEST(TrainingLog, TheLowestTestLossIsKeptAndTheSummaryNamesItsStep) {
  TrainingLog log{TrainingRecord{}};
  log.step(3, 1, 1);
  for (const auto& [step, loss] : {std::pair{250, 1.75}, {500, 1.5}, {750, NAN}, {1000, 1.625}})
    log.evaluation({.steps = static_cast<std::uint64_t>(step)}, 1, {1s, 1s}, {.loss = loss});
  const TrainingRecord& record = log.finish({.steps = 1000}, 1, 1s, StopReason::kCompleted);
  EXPECT_EQ(record.best_test_loss, 1.5);
  EXPECT_EQ(record.best_step, 500U);
  EXPECT_NE(summary_of(record).find("test loss 1.6250, "), std::string::npos);
  EXPECT_NE(summary_of(record).find("\n  lowest test loss 1.5000, after step 500"),
            std::string::npos)
      << summary_of(record);
}

TEST(Summary, HasPlainCountsAndTheErrorOfARegression) {
  TrainingLog log{TrainingRecord{}};
  log.step(3, 1, 1);
  log.evaluation({.steps = 1}, 1, {1s, 1s}, {.loss = 0.25, .rmse = 1234.5, .r2 = 0.75});
  EXPECT_EQ(
      summary_of(log.finish({.steps = 1}, 1, 1s, StopReason::kCompleted)),
      "completed after 1 step, 1 epoch, 0:01: train loss 3.0000, test loss 0.2500, RMSE 1234, "
      "1 samples/s");
  const std::string long_one =
      summary_of(log.finish({.steps = 12345}, 12345, 1s, StopReason::kCompleted));
  EXPECT_EQ(long_one.rfind("completed after 12345 steps, 12345 epochs, 0:01: ", 0), 0U) << long_one;
}

TEST(Summary, WarnsOfAModelThatGuessesAtTheEnd) {
  TrainingLog log{TrainingRecord{}};
  const Score guess{.loss = 2.3, .accuracy = 0.1, .chance = 0.1, .predictions = 10000};
  Score better = guess;
  better.accuracy = 0.8;
  const auto end = [&](const Score& score) {
    log.evaluation({.steps = 1}, 1, {1s, 1s}, score);
    return summary_of(log.finish({.steps = 1}, 1, 1s, StopReason::kCompleted));
  };
  EXPECT_NE(end(guess).find("\n  warning: the accuracy is no better than that of always answering "
                            "the most frequent label, 10.00 %"),
            std::string::npos);
  EXPECT_EQ(end(better).find("warning"), std::string::npos);
}

TEST(TrainingLog, ATrainingWithoutPointsHasALossAtItsEnd) {
  TrainingLog log{TrainingRecord{}};
  log.step(3, 1, 1);
  EXPECT_EQ(log.finish({.steps = 1}, 0, 1s, StopReason::kInterrupted).train_loss, 3);
}

TEST(TrainingLog, TheSummaryNamesLostWorkersAndTheSamplesThatTheyMissed) {
  TrainingRecord record{.outcome = "completed", .steps = 100, .epochs = 2, .samples = 990};
  EXPECT_EQ(summary_of(record).find("warning"), std::string::npos);
  record.lost_workers = {{.rank = 1, .after_step = 20, .until_step = 22, .samples = 8},
                         {.rank = 0, .after_step = 60, .until_step = 61, .samples = 2}};
  const std::string text = summary_of(record);
  for (const char* const line :
       {"\n  warning: worker 1 was lost after step 20; up to step 22, at most 8 samples of its "
        "share were not trained on\n",
        "\n  warning: worker 0 was lost after step 60;",
        "\n  warning: at most 10 samples, 1 % of the training, were not trained on"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

}  // namespace
}  // namespace tally::app
