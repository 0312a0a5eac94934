#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::app {

// An interval of steps or epochs. One of them is not 0; both 0: never.
struct Interval {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Parses "500", "500 steps", "2 epochs", "1epoch"; "never". kInvalid for any other text.
Result<Interval> parse_interval(std::string_view text);

// Progress of a training: completed steps and epochs.
struct Moment {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
};

// Whether an interval ends with the step from `before` to `after`.
bool is_due(const Interval& interval, const Moment& before, const Moment& after);

// Settings of the training loop. They are the same on all ranks, and so are the decisions.
struct LoopControlOptions {
  std::uint64_t total_steps = 0;
  Interval evaluate{.epochs = 1};
  Interval save;                          // never unless requested
  bool saves_best = false;                // instead: after evaluations where is_best() holds
  std::optional<double> target_accuracy;  // 0 to 1
  std::uint64_t patience = 0;             // evaluations without a lower test loss; 0: no early stop
};

enum class StopReason : std::uint8_t {
  kCompleted,
  kTargetReached,
  kNoImprovement,
  kInterrupted,
  kDiverged,
};
// "completed", "target accuracy reached", ...
std::string_view to_string(StopReason reason);

// Summed over all ranks, so equal on all of them.
struct Score {
  double loss = 0;                 // mean over the test part
  std::optional<double> accuracy;  // where defined
  double chance = 0;               // with accuracy: the share of the most frequent label
  // With accuracy, the loss of a model that knows only the labels' shares in the test part: its
  // mean, which is the entropy of the labels, and its standard deviation over samples.
  double label_entropy = 0;
  double label_deviation = 0;
  double predictions = 0;      // with accuracy: behind it
  std::optional<double> auc;   // for binary classification, if the test part has both labels
  std::optional<double> rmse;  // of a regression, in the unit of the target
  std::optional<double> r2;    // of a regression, unless all targets are equal
};

// Sums over the samples of a regression, whose targets and outputs are scaled.
struct RegressionSums {
  double squared_errors = 0;
  double targets = 0;
  double squared_targets = 0;
  double samples = 0;
};
// Adds the root of the mean squared error, in the unit of the target, and the coefficient of
// determination: 1 - squared errors / squared deviations of the targets from their mean.
// `deviation` is the target's deviation before scaling.
void add_regression(const RegressionSums& sums, double deviation, Score& score);

// Sets what follows from the number of samples with each label. The sum of `counts` is above 0.
void add_labels(std::span<const double> counts, Score& score);

// The area under the ROC curve: the share of pairs of a positive (label 1) and a negative (label 0)
// sample in which the positive one has the higher score; equal scores count half. Exact, by
// sorting. Nothing unless both labels occur and all scores are numbers. As many labels as scores.
std::optional<double> auc(std::span<const double> scores, std::span<const std::uint8_t> labels);

// Results of evaluations so far; saved in checkpoints.
struct LoopControlState {
  std::optional<double> best_loss;
  std::optional<double> best_accuracy;
  std::uint64_t without_improvement = 0;  // evaluations
};

// The training loss, as means over windows of steps.
struct LossWindows {
  double lowest = 0;
  double last = 0;
  double complete = 0;  // windows so far; over ranks, their mean
};

// Makes the windows of the training losses that one rank sees. A window has at least kLeastSteps
// steps and kLeastSamples samples.
class LossTrend final {
 public:
  static constexpr std::uint64_t kLeastSteps = 8;
  static constexpr std::uint64_t kLeastSamples = 512;

  void add(double mean, std::uint64_t samples);
  // Nothing before two windows are complete.
  std::optional<LossWindows> windows() const;

 private:
  // Of the incomplete window.
  double sum_ = 0;  // of losses, weighted by samples
  std::uint64_t steps_ = 0;
  std::uint64_t samples_ = 0;

  LossWindows windows_;
};

// Whether the model is no better than one that always answers with the most frequent label: its
// accuracy exceeds the share of that label by at most three standard deviations and at most 2 % of
// the way to 1, and its AUC, where defined, is at most 0.6.
bool is_guessing(const Score& score);

// Why the accuracy shows that the training has diverged: it is that of guessing, and `best`, the
// best one before, was clearly higher. Empty: it does not show that.
std::string lost_accuracy(const Score& score, std::optional<double> best);
// The same for the training loss: the model guesses, and the loss was clearly below the entropy of
// the labels and has returned to it. This finds a training that fails before its first evaluation.
std::string lost_progress(const Score& score, const LossWindows& train);

struct Due {
  bool evaluate = false;
  bool save = false;
  friend bool operator==(const Due&, const Due&) = default;
};

// Relation of steps and epochs where workers are not synchronous: an epoch is a number of batches
// of all workers.
struct Pace {
  std::uint64_t batches_per_epoch = 1;
  std::uint64_t accumulate = 1;  // batches per step

  std::uint64_t epochs_after(std::uint64_t steps) const {
    return steps * accumulate / batches_per_epoch;
  }
  // Returns the first step after which `epochs` are complete.
  std::uint64_t steps_until(std::uint64_t epochs) const {
    return (epochs * batches_per_epoch + accumulate - 1) / accumulate;
  }
};

// Decides when to evaluate, save and stop. Pure: no clock.
class LoopControl final {
 public:
  explicit LoopControl(const LoopControlOptions& options) : options_(options) {}

  // Returns the actions that are due after the step from `before` to `after`. The last step is
  // evaluated and saved if the options have evaluations and intervals of checkpoints. An
  // interruption is saved but not evaluated.
  Due due(const Moment& before, const Moment& after, bool interrupted) const;
  // Returns the next step at which something is due or the training ends, for workers that do not
  // synchronise after every step.
  std::uint64_t next_due(const Moment& now, const Pace& pace) const;
  // Takes the evaluation after `steps` steps into account. `train` has means over all ranks.
  // A training whose loss returns to that of guessing may recover, so the loss shows a divergence
  // only at the second evaluation in a row, with a window of its own, or at the end.
  void observe(std::uint64_t steps, const Score& score,
               const std::optional<LossWindows>& train = std::nullopt);
  // Whether and why the training ends here; evaluations of this step must have been observed.
  std::optional<StopReason> stop(std::uint64_t steps, bool interrupted) const;
  // The reason of the last evaluation, if the training has diverged; else empty.
  const std::string& divergence() const { return divergence_; }
  // Whether the last evaluation had a lower test loss than all before.
  bool is_best() const { return state_.best_loss && state_.without_improvement == 0; }
  // Whether the last evaluation shows a model that is worth keeping: the training has not diverged,
  // and its loss is not back at that of guessing.
  bool is_sound() const { return divergence_.empty() && !lost_at_; }

  const LoopControlState& state() const { return state_; }
  void restore(const LoopControlState& state) { state_ = state; }

 private:
  const LoopControlOptions options_;
  LoopControlState state_;
  // Complete windows at the first of the evaluations in a row that found the loss of guessing.
  std::optional<double> lost_at_;
  std::string divergence_;
};

// Returns the steps until ranks exchange the next time whether one was interrupted: a fifth of a
// second, 1 to 100 steps. `step_seconds` is a mean over all ranks.
std::uint64_t steps_to_next_agreement(double step_seconds);

// Returns the updates in `epochs` passes: micro-batches of all passes, `accumulate` per update; a
// remainder is not trained on. `limit` is the maximum, 0: none.
std::uint64_t total_steps(std::uint64_t epochs, std::uint64_t batches_per_epoch,
                          std::uint64_t accumulate, std::uint64_t limit);

// Returns `epochs`, or as many as make `least_steps` updates.
std::uint64_t lengthened(std::uint64_t epochs, std::uint64_t least_steps,
                         std::uint64_t batches_per_epoch, std::uint64_t accumulate);

}  // namespace tally::app
