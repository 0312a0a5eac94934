#include "apps/train/loop_control.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tally::app {
namespace {

TEST(LoopControl, EvaluatesAndSavesWhenDueAndAtTheEnd) {
  struct Row {
    LoopControlOptions options;
    Moment before;
    Moment after;
    bool interrupted;
    Due expected;
  };
  const LoopControlOptions both{
      .total_steps = 100, .evaluate = {.epochs = 1}, .save = {.steps = 30}};
  const LoopControlOptions no_saving{.total_steps = 100, .evaluate = {.steps = 10}};
  const LoopControlOptions neither{.total_steps = 100, .evaluate = {}};
  const std::vector<Row> table = {
      {both, {28, 2}, {29, 2}, false, {false, false}},
      {both, {29, 2}, {30, 2}, false, {false, true}},
      {both, {39, 3}, {40, 4}, false, {true, false}},
      {both, {99, 9}, {100, 9}, false, {true, true}},  // the last step does both
      {both, {28, 2}, {29, 2}, true, {false, true}},   // stop requested: save first
      {no_saving, {28, 2}, {29, 2}, true, {false, false}},
      {no_saving, {29, 2}, {30, 2}, false, {true, false}},
      {no_saving, {99, 9}, {100, 9}, false, {true, false}},
      {neither, {99, 9}, {100, 10}, false, {false, false}},
  };
  for (const Row& row : table)
    EXPECT_EQ(LoopControl(row.options).due(row.before, row.after, row.interrupted), row.expected)
        << "after step " << row.after.steps;
}

TEST(LoopControl, StopsAtTheTargetAccuracyOnceItWasReached) {
  LoopControl course({.total_steps = 100, .target_accuracy = 0.9});
  course.observe({.loss = 1, .accuracy = 0.89});
  EXPECT_EQ(course.stop(10, false), std::nullopt);
  course.observe({.loss = 0.9, .accuracy = 0.9});
  EXPECT_EQ(course.stop(20, false), StopReason::kTargetReached);
  EXPECT_EQ(course.state().best_accuracy, 0.9);
}

TEST(LoopControl, StopsEarlyAfterSoManyEvaluationsWithoutALowerLoss) {
  LoopControl course({.total_steps = 100, .patience = 2});
  const std::vector<std::pair<double, bool>> losses = {
      {1.0, false}, {0.8, false},          {0.8, false},  // an equal loss is no improvement
      {0.7, false}, {std::nan(""), false}, {0.9, true}};
  for (const auto& [loss, stops] : losses) {
    course.observe({.loss = loss});
    EXPECT_EQ(course.stop(10, false).has_value(), stops) << loss;
  }
  EXPECT_EQ(course.stop(10, false), StopReason::kNoImprovement);
  EXPECT_EQ(course.state().best_loss, 0.7);
}

// With 10 classes and 10,000 test samples guessing gives 10 %, with a standard deviation of 0.3 %.
TEST(LoopControl, EndsWhenTheAccuracyFallsToThatOfGuessing) {
  struct Case {
    double chance;
    double predictions;
    std::vector<double> accuracies;
    bool diverges;
  };
  const Case cases[] = {
      {0.1, 10000, {0.97, 0.1135}, false},  // 4.5 deviations above guessing
      {0.1, 10000, {0.97, 0.1085}, true},
      {0.1, 10000, {0.97, 0.05}, true},         // worse than guessing
      {0.1, 10000, {0.10, 0.10, 0.10}, false},  // it has not learned yet
      {0.1, 10000, {0.15, 0.10}, false},        // it had hardly learned
      {0.1, 10000, {0.20, 0.10}, true},
      {0.1, 10000, {0.97, 0.60}, false},  // worse, but not lost
      {0.55, 100, {0.62, 0.66}, false},   // few samples: it becomes better
      {0.55, 100, {0.72, 0.66}, false},   // both may be guessing
      {0.55, 100, {0.95, 0.55}, true},
      {0.76, 1000, {0.79, 0.795}, false},
      {0.76, 1000, {0.95, 0.76}, true},
      {0.633, 30, {0.967, 0.80}, false},   // 5 samples more are wrong
      {0.633, 30, {0.867, 0.867}, false},  // as before
      {0.1, 1000, {0.50, 0.10, 0.12}, true},
  };
  for (const Case& c : cases) {
    LoopControl course({.total_steps = 100});
    for (const double accuracy : c.accuracies)
      course.observe(
          {.loss = 2.3, .accuracy = accuracy, .chance = c.chance, .predictions = c.predictions});
    EXPECT_EQ(!course.divergence().empty(), c.diverges)
        << c.predictions << " samples, " << c.accuracies.back();
    EXPECT_EQ(course.stop(10, false) == StopReason::kDiverged, c.diverges);
  }
  // Most labels are equal: 76 % is guessing.
  EXPECT_EQ(divergence_of({.accuracy = 0.764, .chance = 0.764, .predictions = 16281}, 0.85),
            "the accuracy was 85.00 % and is 76.40 % now, which guessing gives (the most frequent "
            "label has 76.40 %)");
  EXPECT_EQ(divergence_of({.accuracy = 0.764, .chance = 0.764, .predictions = 16281}, 0.77), "");
  EXPECT_EQ(divergence_of({.loss = 3}, std::nullopt), "");
}

TEST(LoopControl, ATrainingThatFailedBeforeItsFirstEvaluationHasDiverged) {
  const Score guess{.loss = 2.3, .accuracy = 0.1, .chance = 0.1, .predictions = 10000};
  LoopControl course({.total_steps = 100});
  course.observe(guess, LossWindows{.first = 2.3, .lowest = 1.67, .last = 2.31});
  EXPECT_EQ(course.divergence(),
            "the training loss fell from 2.3 to 1.67 and is 2.31 now, and the accuracy of 10.00 % "
            "is that of guessing (the most frequent label has 10.00 %)");
  EXPECT_EQ(course.stop(10, false), StopReason::kDiverged);
}

TEST(LoopControl, ATrainingThatHasLearnedLittleHasNotDiverged) {
  const Score guess{.loss = 2.3, .accuracy = 0.1, .chance = 0.1, .predictions = 10000};
  // A training that begins, one whose loss rises in the warm-up, one that fits the training part
  // only, and one whose losses vary as much.
  for (const LossWindows& train : {LossWindows{.first = 2.3, .lowest = 2.25, .last = 2.3},
                                   {.first = 2.3, .lowest = 2.3, .last = 2.6},
                                   {.first = 2.3, .lowest = 0.1, .last = 0.15},
                                   {.first = 2.3, .lowest = 1.67, .last = 2.31, .error = 0.11}})
    EXPECT_EQ(divergence_of(guess, std::nullopt, train), "");
  EXPECT_EQ(divergence_of(guess, std::nullopt, std::nullopt), "");
  // The accuracy is high; the labels are rare, and the model ranks them well.
  const LossWindows back{.first = 0.33, .lowest = 0.28, .last = 0.33};
  EXPECT_EQ(divergence_of({.accuracy = 0.8, .chance = 0.1, .predictions = 10000}, {}, back), "");
  Score rare{.accuracy = 0.9, .chance = 0.9, .predictions = 10000, .auc = 0.75};
  EXPECT_EQ(divergence_of(rare, {}, back), "");
  rare.auc = 0.5;
  EXPECT_NE(divergence_of(rare, {}, back), "");
}

TEST(LoopControl, AModelGuessesIfItIsNoBetterThanTheMostFrequentLabel) {
  const auto guesses = [](double accuracy, std::optional<double> auc) {
    return is_guessing({.accuracy = accuracy, .chance = 0.9, .predictions = 10000, .auc = auc});
  };
  EXPECT_TRUE(guesses(0.9, {}));
  EXPECT_TRUE(guesses(0.1, {}));
  EXPECT_TRUE(guesses(0.9089, {}));  // three standard deviations are 0.009
  EXPECT_FALSE(guesses(0.9091, {}));
  EXPECT_TRUE(guesses(0.9, 0.55));
  EXPECT_FALSE(guesses(0.9, 0.75));
  EXPECT_FALSE(is_guessing({.loss = 1}));
}

// Rare labels: the mean loss of a step depends on how many of them it has.
TEST(LossTrend, TheErrorIsThatOfTheNoisierWindow) {
  LossTrend trend;
  const auto add_window = [&trend](double mean, double deviation) {
    for (std::uint64_t step = 0; step < LossTrend::kLeastSteps; ++step)
      trend.add(step % 2 == 0 ? mean - deviation : mean + deviation, LossTrend::kLeastSamples);
  };
  const double root = std::sqrt(static_cast<double>(LossTrend::kLeastSteps - 1));
  add_window(3, 0.2);
  add_window(2, 0.1);
  EXPECT_NEAR(trend.windows()->error, 0.2 / root, 1e-9);
  add_window(1, 0.4);
  EXPECT_NEAR(trend.windows()->error, 0.4 / root, 1e-9);
  add_window(2, 0.8);  // neither first nor lowest
  EXPECT_NEAR(trend.windows()->error, 0.4 / root, 1e-9);
  EXPECT_DOUBLE_EQ(trend.windows()->last, 2);
}

TEST(LossTrend, WindowsHaveEnoughStepsAndSamples) {
  LossTrend trend;
  const auto add_window = [&trend](double mean) {
    for (std::uint64_t step = 0; step < LossTrend::kLeastSteps; ++step)
      trend.add(mean, LossTrend::kLeastSamples / LossTrend::kLeastSteps);
  };
  add_window(2);
  EXPECT_FALSE(trend.windows().has_value());
  add_window(1);
  add_window(3);
  ASSERT_TRUE(trend.windows().has_value());
  EXPECT_DOUBLE_EQ(trend.windows()->first, 2);
  EXPECT_DOUBLE_EQ(trend.windows()->lowest, 1);
  EXPECT_DOUBLE_EQ(trend.windows()->last, 3);
  // Incomplete: too few steps, then too few samples.
  trend.add(9, 4 * LossTrend::kLeastSamples);
  LossTrend small;
  for (int step = 0; step < 1000; ++step) small.add(1, 1);
  EXPECT_DOUBLE_EQ(trend.windows()->last, 3);
  EXPECT_FALSE(small.windows().has_value());
}

TEST(LoopControl, GoesOnAfterARestoreAsIfItHadNotStopped) {
  LoopControl first({.total_steps = 100, .patience = 2});
  first.observe({.loss = 1});
  first.observe({.loss = 2});
  LoopControl second({.total_steps = 100, .patience = 2});
  second.restore(first.state());
  EXPECT_EQ(second.stop(10, false), std::nullopt);
  second.observe({.loss = 1});
  EXPECT_EQ(second.stop(10, false), StopReason::kNoImprovement);
}

TEST(LoopControl, EndsWithItsStepsOrAnInterrupt) {
  const LoopControl course({.total_steps = 100});
  EXPECT_EQ(course.stop(99, false), std::nullopt);
  EXPECT_EQ(course.stop(99, true), StopReason::kInterrupted);
  EXPECT_EQ(course.stop(100, false), StopReason::kCompleted);
  EXPECT_EQ(course.stop(100, true), StopReason::kCompleted);
}

TEST(StepsToNextAgreement, AreAFifthOfASecondsWorth) {
  const std::vector<std::pair<double, std::uint64_t>> table = {
      {0.0, 1}, {-1.0, 1}, {std::nan(""), 1}, {10.0, 1}, {0.2, 1}, {0.02, 10}, {1e-6, 100}};
  for (const auto& [seconds, steps] : table)
    EXPECT_EQ(steps_to_next_agreement(seconds), steps) << seconds;
}

TEST(TotalSteps, AreWholeUpdates) {
  EXPECT_EQ(total_steps(3, 10, 1, 0), 30U);
  EXPECT_EQ(total_steps(3, 10, 4, 0), 7U);
  EXPECT_EQ(total_steps(3, 10, 1, 12), 12U);
  EXPECT_EQ(total_steps(3, 10, 1, 50), 30U);
  EXPECT_EQ(total_steps(std::numeric_limits<std::uint64_t>::max(), 10, 1, 7), 7U);
}

TEST(Pace, StepsAndEpochsGoTogether) {
  const Pace plain{.batches_per_epoch = 10};
  EXPECT_EQ(plain.epochs_after(9), 0U);
  EXPECT_EQ(plain.epochs_after(10), 1U);
  EXPECT_EQ(plain.steps_until(3), 30U);
  // With four batches per step, the first epoch of ten batches ends in the third step.
  const Pace gathered{.batches_per_epoch = 10, .accumulate = 4};
  EXPECT_EQ(gathered.steps_until(1), 3U);
  EXPECT_EQ(gathered.epochs_after(2), 0U);
  EXPECT_EQ(gathered.epochs_after(3), 1U);
  EXPECT_EQ(gathered.epochs_after(5), 2U);
}

TEST(LoopControl, NextMeetingIsWhereSomethingIsDue) {
  const Pace pace{.batches_per_epoch = 10};
  struct Row {
    LoopControlOptions options;
    Moment now;
    std::uint64_t expected;
  };
  const std::vector<Row> table = {
      {{.total_steps = 100, .evaluate = {.epochs = 1}}, {0, 0}, 10},
      {{.total_steps = 100, .evaluate = {.epochs = 2}}, {20, 2}, 40},
      {{.total_steps = 100, .evaluate = {.epochs = 2}, .save = {.steps = 7}}, {20, 2}, 21},
      {{.total_steps = 100, .evaluate = {.steps = 30}}, {31, 3}, 60},
      {{.total_steps = 100, .evaluate = {.steps = 30}}, {95, 9}, 100},
      {{.total_steps = 100, .evaluate = {}}, {5, 0}, 100},
      {{.total_steps = 100, .evaluate = {}}, {103, 10}, 104}};  // past the end: at the next step
  for (const Row& row : table)
    EXPECT_EQ(LoopControl(row.options).next_due(row.now, pace), row.expected) << row.now.steps;
}

TEST(Lengthened, EpochsMakeTheLeastSteps) {
  EXPECT_EQ(lengthened(2, 0, 1, 1), 2U);
  EXPECT_EQ(lengthened(2, 100, 1, 1), 100U);
  EXPECT_EQ(lengthened(2, 100, 3, 1), 34U);
  EXPECT_EQ(lengthened(2, 100, 3, 2), 67U);
  EXPECT_EQ(lengthened(2, 100, 500, 1), 2U);
  EXPECT_EQ(lengthened(2, 100, 0, 1), 100U);
}

}  // namespace
}  // namespace tally::app
