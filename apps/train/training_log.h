#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "apps/train/loop_control.h"
#include "apps/train/preparation.h"
#include "apps/train/report.h"
#include "apps/train/train_options.h"
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

// Facts about the run, for the rows of the configuration.
struct SetupFacts {
  int workers = 1;
  int threads = 1;
  std::string device;
  std::string torch;
};
std::vector<RecordRow> configuration_of(const TrainOptions& options, recipes::Recipe& recipe,
                                        const Preparation& prepared, const SetupFacts& facts);

// Collects the record of a training.
class TrainingLog final {
 public:
  explicit TrainingLog(TrainingRecord record) : record_(std::move(record)) {}

  // Adds a step of all ranks. `units` are samples or tokens.
  void step(double loss, std::uint64_t samples, std::uint64_t units);
  // Adds a point of the curves; with `score` after an evaluation.
  void point(const Moment& moment, double epochs, Duration at, const std::optional<Score>& score);
  // The time since the last point was not spent on training, and does not count for the speed of
  // the next point.
  void pause_until(Duration at) { point_at_ = at; }
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
