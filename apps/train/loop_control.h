#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/train/interval.h"
#include "tally/error.h"

namespace tally::app {

// What the course of a training depends on. All of it is the same on all ranks, and so is what is
// decided here.
struct LoopControlOptions {
  std::uint64_t total_steps = 0;
  Interval evaluate{.epochs = 1};
  Interval save;                          // never unless asked for
  std::optional<double> target_accuracy;  // 0 to 1
  std::uint64_t patience = 0;             // evaluations without a lower test loss; 0: no early stop
};

enum class StopReason : std::uint8_t { kCompleted, kTargetReached, kNoImprovement, kInterrupted };
// "completed", "target accuracy reached", ...
std::string_view to_string(StopReason reason);

// Summed over all ranks, so alike on all.
struct Score {
  double loss = 0;                 // mean over the test part
  std::optional<double> accuracy;  // where it means something
  std::optional<double> auc;       // of answers yes or no, where the test part has both
};

// What evaluations have shown so far; a checkpoint keeps it.
struct LoopControlState {
  std::optional<double> best_loss;
  std::optional<double> best_accuracy;
  std::uint64_t without_improvement = 0;  // evaluations
};

struct Due {
  bool evaluate = false;
  bool save = false;
  friend bool operator==(const Due&, const Due&) = default;
};

// How steps and epochs go together where workers are not in step: an epoch is so many batches of
// all workers.
struct Pace {
  std::uint64_t batches_per_epoch = 1;
  std::uint64_t accumulate = 1;  // batches of a step

  std::uint64_t epochs_after(std::uint64_t steps) const;
  // The first step after which so many are over.
  std::uint64_t steps_until(std::uint64_t epochs) const;
};

// Decides when to evaluate, to save and to stop. Pure: it sees numbers and no clock.
class LoopControl final {
 public:
  explicit LoopControl(const LoopControlOptions& options) : options_(options) {}

  // After the step from `before` to `after`. The last step is evaluated and saved where that is
  // done at all; an interrupt is saved but not evaluated.
  Due due(const Moment& before, const Moment& after, bool interrupted) const;
  // The step after which something of this is due next, or the training ends, for those who do not
  // come together after every step.
  std::uint64_t next_due(const Moment& now, const Pace& pace) const;
  // Takes an evaluation into account.
  void observe(const Score& score);
  // Whether it ends here, and why; an evaluation must have been observed before.
  std::optional<StopReason> stop(std::uint64_t steps, bool interrupted) const;

  const LoopControlState& state() const { return state_; }
  void restore(const LoopControlState& state) { state_ = state; }

 private:
  const LoopControlOptions options_;
  LoopControlState state_;
};

// Steps until ranks ask each other again whether one was interrupted: a fifth of a second's worth,
// 1 to 100. `step_seconds` is a mean over all ranks.
std::uint64_t steps_to_next_agreement(double step_seconds);

// How many updates `epochs` passes are: micro-batches of all of them, `accumulate` to an update;
// what is left over is not trained on. `limit` (0: none) is the most.
std::uint64_t total_steps(std::uint64_t epochs, std::uint64_t batches_per_epoch,
                          std::uint64_t accumulate, std::uint64_t limit);

}  // namespace tally::app
