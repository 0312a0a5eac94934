#include "apps/train/loop_control.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

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
  const LoopControlOptions best{.total_steps = 100, .evaluate = {.steps = 10}, .saves_best = true};
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
      {best, {89, 9}, {90, 9}, false, {true, false}},  // the evaluation decides
      {best, {99, 9}, {100, 9}, false, {true, false}},
      {best, {28, 2}, {29, 2}, true, {false, true}},
      {neither, {99, 9}, {100, 10}, false, {false, false}},
  };
  for (const Row& row : table)
    EXPECT_EQ(LoopControl(row.options).due(row.before, row.after, row.interrupted), row.expected)
        << "after step " << row.after.steps;
}

TEST(LoopControl, StopsAtTheTargetAccuracyOnceItWasReached) {
  LoopControl course({.total_steps = 100, .target_accuracy = 0.9});
  course.observe(10, {.loss = 1, .accuracy = 0.89});
  EXPECT_EQ(course.stop(10, false), std::nullopt);
  course.observe(20, {.loss = 0.9, .accuracy = 0.9});
  EXPECT_EQ(course.stop(20, false), StopReason::kTargetReached);
  EXPECT_EQ(course.state().best_accuracy, 0.9);
}

TEST(LoopControl, TheBestEvaluationHasALowerLossThanAllBefore) {
  LoopControl course({.total_steps = 100, .saves_best = true});
  EXPECT_FALSE(course.is_best());
  for (const auto& [loss, best] : std::vector<std::pair<double, bool>>{
           {std::nan(""), false}, {0.9, true}, {1, false}, {0.9, false}, {0.8, true}}) {
    course.observe(10, {.loss = loss});
    EXPECT_EQ(course.is_best(), best) << loss;
  }
}

TEST(LoopControl, StopsEarlyAfterSoManyEvaluationsWithoutALowerLoss) {
  LoopControl course({.total_steps = 100, .patience = 2});
  const std::vector<std::pair<double, bool>> losses = {
      {1.0, false}, {0.8, false},          {0.8, false},  // an equal loss is no improvement
      {0.7, false}, {std::nan(""), false}, {0.9, true}};
  for (const auto& [loss, stops] : losses) {
    course.observe(10, {.loss = loss});
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
      {1, 1, {1, 0}, false},  // one test sample
  };
  for (const Case& c : cases) {
    LoopControl course({.total_steps = 100});
    for (const double accuracy : c.accuracies)
      course.observe(
          10,
          {.loss = 2.3, .accuracy = accuracy, .chance = c.chance, .predictions = c.predictions});
    EXPECT_EQ(!course.divergence().empty(), c.diverges)
        << c.predictions << " samples, " << c.accuracies.back();
    EXPECT_EQ(course.stop(10, false) == StopReason::kDiverged, c.diverges);
  }
  // Most labels are equal: 76 % is guessing.
  EXPECT_EQ(lost_accuracy({.accuracy = 0.764, .chance = 0.764, .predictions = 16281}, 0.85),
            "the accuracy was 85.00 % and is 76.40 % now, which guessing gives (the most frequent "
            "label has 76.40 %)");
  EXPECT_EQ(lost_accuracy({.accuracy = 0.764, .chance = 0.764, .predictions = 16281}, 0.77), "");
  EXPECT_EQ(lost_accuracy({.loss = 3}, std::nullopt), "");
}

// The score of a model that guesses among ten labels.
constexpr Score kGuess{
    .loss = 2.3, .accuracy = 0.1, .chance = 0.1, .label_entropy = 2.3026, .predictions = 10000};

TEST(LoopControl, ATrainingWhoseLossIsBackAtGuessingHasDivergedUnlessItRecovers) {
  const auto back = [](double complete) {
    return LossWindows{.lowest = 1.67, .last = 2.31, .complete = complete};
  };
  LoopControl at_the_end({.total_steps = 100});
  at_the_end.observe(100, kGuess, back(9));
  EXPECT_EQ(at_the_end.divergence(),
            "the training loss fell to 1.67 and rose to 2.31 again, where guessing has 2.303; the "
            "accuracy is 10.00 %, and the most frequent label has 10.00 %");
  EXPECT_EQ(at_the_end.stop(100, false), StopReason::kDiverged);

  LoopControl twice({.total_steps = 100});
  twice.observe(10, kGuess, back(3));
  EXPECT_EQ(twice.stop(10, false), std::nullopt);
  EXPECT_FALSE(twice.is_sound());
  twice.observe(20, kGuess, back(3));  // the same window
  EXPECT_EQ(twice.stop(20, false), std::nullopt);
  twice.observe(30, kGuess, back(4));
  EXPECT_EQ(twice.stop(30, false), StopReason::kDiverged);

  LoopControl recovers({.total_steps = 100});
  recovers.observe(10, kGuess, back(3));
  recovers.observe(20, kGuess, LossWindows{.lowest = 1.67, .last = 2, .complete = 4});
  EXPECT_TRUE(recovers.is_sound());
  recovers.observe(30, kGuess, back(5));
  EXPECT_EQ(recovers.stop(30, false), std::nullopt);

  LoopControl out_of_patience({.total_steps = 100, .patience = 1});
  out_of_patience.observe(10, {.loss = 1});
  out_of_patience.observe(20, kGuess, back(3));
  EXPECT_EQ(out_of_patience.stop(20, false), StopReason::kDiverged);
}

TEST(LoopControl, ATrainingThatHasLearnedLittleHasNotDiverged) {
  // A training that begins, one whose loss rises in the warm-up, and one that fits only the
  // training part.
  for (const LossWindows& train : {LossWindows{.lowest = 2.25, .last = 2.3},
                                   {.lowest = 2.3, .last = 2.6},
                                   {.lowest = 0.1, .last = 0.15}})
    EXPECT_EQ(lost_progress(kGuess, train), "");
  Score high = kGuess;
  high.accuracy = 0.8;
  EXPECT_EQ(lost_progress(high, {.lowest = 1.67, .last = 2.31}), "");
  // One label in ten is positive, and the model ranks the samples well.
  Score uneven{.accuracy = 0.9,
               .chance = 0.9,
               .label_entropy = 0.325,
               .label_deviation = 0.659,
               .predictions = 10000};
  const LossWindows back{.lowest = 0.1, .last = 0.33};
  uneven.auc = 0.75;
  EXPECT_EQ(lost_progress(uneven, back), "");
  uneven.auc = 0.5;
  EXPECT_NE(lost_progress(uneven, back), "");
  EXPECT_EQ(lost_progress(uneven, {.lowest = 0.15, .last = 0.33}), "");  // six standard errors
}

TEST(LoopControl, ScoresKnowTheLossOfGuessingByTheLabels) {
  Score even;
  add_labels(std::vector<double>{25, 25, 0, 25, 25}, even);
  EXPECT_DOUBLE_EQ(even.chance, 0.25);
  EXPECT_DOUBLE_EQ(even.predictions, 100);
  EXPECT_NEAR(even.label_entropy, std::log(4), 1e-12);
  EXPECT_NEAR(even.label_deviation, 0, 1e-6);
  Score uneven;
  add_labels(std::vector<double>{10, 90}, uneven);
  EXPECT_DOUBLE_EQ(uneven.chance, 0.9);
  EXPECT_NEAR(uneven.label_entropy, 0.1 * std::log(10) + 0.9 * std::log(1 / 0.9), 1e-12);
  EXPECT_NEAR(uneven.label_deviation, 0.3 * std::log(9), 1e-12);  // sqrt(p q) ln(q / p)
}

// A model that predicts the share of a rare label has a loss that depends on how often the label
// occurs. The windows without it have the lowest losses.
TEST(LoopControl, RareLabelsAreNoProgress) {
  constexpr int kBatch = 64;
  constexpr int kEvaluations = 100;
  for (const double share : {0.01, 0.03, 0.05, 0.2}) {
    const double rare_loss = -std::log(share);
    const double usual_loss = -std::log(1 - share);
    const double deviation = std::sqrt(share * (1 - share)) * (rare_loss - usual_loss);
    const Score score{.accuracy = 1 - share,
                      .chance = 1 - share,
                      .label_entropy = share * rare_loss + (1 - share) * usual_loss,
                      .label_deviation = deviation,
                      .predictions = 10000};
    Rng rng(5);
    LossTrend trend;
    for (int evaluation = 0; evaluation < kEvaluations; ++evaluation) {
      for (int step = 0; step < 100; ++step) {
        double loss = 0;
        for (int i = 0; i < kBatch; ++i) loss += rng.uniform() < share ? rare_loss : usual_loss;
        trend.add(loss / kBatch, kBatch);
      }
      EXPECT_EQ(lost_progress(score, *trend.windows()), "") << share;
    }
  }
}

TEST(LoopControl, AModelGuessesIfItIsNoBetterThanTheMostFrequentLabel) {
  const auto guesses = [](double accuracy, std::optional<double> auc, double predictions = 1e6) {
    return is_guessing(
        {.accuracy = accuracy, .chance = 0.9, .predictions = predictions, .auc = auc});
  };
  EXPECT_TRUE(guesses(0.9, {}));
  EXPECT_TRUE(guesses(0.1, {}));
  EXPECT_TRUE(guesses(0.9008, {}));  // three standard deviations are 0.0009
  EXPECT_FALSE(guesses(0.901, {}));
  EXPECT_TRUE(guesses(0.9, 0.55));
  EXPECT_FALSE(guesses(0.9, 0.75));
  // Three standard deviations of 60 samples reach beyond 100 %.
  EXPECT_FALSE(guesses(0.95, {}, 60));
  EXPECT_FALSE(is_guessing({.loss = 1}));
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
  first.observe(10, {.loss = 1});
  first.observe(10, {.loss = 2});
  LoopControl second({.total_steps = 100, .patience = 2});
  second.restore(first.state());
  EXPECT_EQ(second.stop(10, false), std::nullopt);
  second.observe(10, {.loss = 1});
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
