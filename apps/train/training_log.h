#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "apps/train/loop_control.h"
#include "apps/train/report.h"
#include "tally/deadline.h"

namespace tally::app {

// A mean over the samples of several steps.
class RunningMean final {
 public:
  void add(double mean, std::uint64_t samples);
  // Returns the mean since the last clear(); nothing if there was no sample.
  std::optional<double> mean() const;
  void clear() { *this = {}; }

 private:
  double sum_ = 0;
  std::uint64_t samples_ = 0;
};

// Collects the record of a training.
class TrainingLog final {
 public:
  explicit TrainingLog(TrainingRecord record) : record_(std::move(record)) {}

  // Adds a step of all ranks. `units` are samples or tokens.
  void step(double loss, std::uint64_t samples, std::uint64_t units);
  // Adds a point of the training curves: the mean loss and the speed since the previous one. Points
  // at equal distances make means over equally many steps. `rate` is the learning rate of the next
  // step.
  void point(const Moment& moment, double epochs, Duration at, double rate);
  // Adds a point with the result of an evaluation. It does not interrupt the means of the training
  // curves: a mean over the few steps that are left at the end of an epoch would look like a dip.
  // The time of the evaluation does not count for the speed of the training.
  struct Span {
    Duration begin{};
    Duration end{};
  };
  void evaluation(const Moment& moment, double epochs, const Span& span, const Score& score);
  void event(std::uint64_t step, std::string text);
  // Adds a checkpoint that could not be written, for the summary and as an event.
  void save_failed(std::uint64_t step, const std::string& reason);

  std::uint64_t units() const { return units_; }
  const TrainingRecord& record() const { return record_; }
  // Completes the totals.
  TrainingRecord& finish(const Moment& moment, double epochs, Duration elapsed, StopReason reason);

 private:
  TrainingRecord record_;
  RunningMean since_point_;
  RunningMean since_evaluation_;
  std::uint64_t units_ = 0;
  std::uint64_t units_at_point_ = 0;
  Duration point_at_{};
};

// Returns the lines at the end of a run.
std::string summary_of(const TrainingRecord& record);

}  // namespace tally::app
