#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::app {

// A row of the configuration in the report: "batch per worker", "64".
struct RecordRow {
  std::string key;
  std::string value;
};

// Values after a step. All but `step` and `epoch` may be missing: a point may be a training loss
// alone, or an evaluation. Values that are not finite are shown as such.
struct RecordPoint {
  std::uint64_t step = 0;               // completed steps, of all epochs
  double epoch = 0;                     // completed epochs: 1.5 is the middle of the second
  std::optional<double> train_loss;     // mean per sample since the previous point
  std::optional<double> test_loss;      // mean per sample of the test or validation part
  std::optional<double> accuracy;       // of that part, 0 to 1
  std::optional<double> auc;            // of that part, for binary classification
  std::optional<double> samples_per_s;  // of all workers since the previous point
  std::optional<double> rate;           // learning rate of the next step
  double at_s = 0;                      // since the training began
};

// Total time of one worker by activity.
struct WorkerTimes {
  Rank rank = 0;
  std::string host;
  Duration compute{};
  Duration communicate{};
  Duration wait{};  // for other workers
  Duration data{};  // for samples that were not ready
};

// An event: "target accuracy 0.89 reached", "resumed from step 1200", "checkpoint written".
struct RecordEvent {
  std::uint64_t step = 0;
  std::string text;
};

// A worker that died while the others went on. The others divided its data from `until_step` on.
struct LostWorker {
  Rank rank = 0;
  std::uint64_t after_step = 0;  // the last step at which it met the others
  std::uint64_t until_step = 0;  // the step at which the others met without it
  std::uint64_t samples = 0;     // of its share between the two: at most so many were not used
  friend bool operator==(const LostWorker&, const LostWorker&) = default;
};

// The record of a training, while it runs or afterwards. A plain value.
struct TrainingRecord {
  std::string recipe;            // "lenet"
  std::string data;              // "fashion-mnist"
  std::string started;           // text such as "2026-05-01 12:00 UTC"
  std::string outcome;           // "completed", "target accuracy reached", "interrupted"...
  std::string unit = "samples";  // of throughput: samples or tokens
  int workers = 1;
  std::uint64_t parameters = 0;  // trainable parameters
  std::uint64_t steps = 0;
  double epochs = 0;
  std::uint64_t samples = 0;         // that all workers have trained on
  Duration elapsed{};                // of the training itself, evaluations included
  std::optional<double> train_loss;  // the last ones
  std::optional<double> test_loss;
  std::optional<double> accuracy;
  std::optional<double> best_accuracy;
  std::optional<double> best_test_loss;  // the lowest of this run
  std::uint64_t best_step = 0;           // after which it was measured
  std::optional<double> auc;
  std::optional<double> rmse;  // of a regression, in the unit of the target
  // The share of the most frequent label, if is_guessing() for the last evaluation.
  std::optional<double> majority_accuracy;
  std::optional<double> samples_per_s;   // of the whole training
  std::string command;                   // the command line, as a shell reads it
  std::vector<RecordRow> configuration;  // in the order of display
  std::vector<RecordPoint> points;       // by step, ascending
  std::vector<WorkerTimes> times;        // by rank; lost workers have none
  std::vector<LostWorker> lost_workers;  // in the order of their loss
  // With --balance speed: the samples of a step by worker, as they were at the end.
  std::vector<std::uint64_t> parts;
  std::vector<RecordEvent> events;   // in chronological order
  std::vector<RecordEvent> unsaved;  // checkpoints that could not be written; also events
  bool last_save_failed = false;     // the last checkpoint is one of them
  // Number of gradients of all workers with staleness 0, 1, 2, ..., and of dropped gradients.
  std::vector<std::uint64_t> staleness;
  std::uint64_t dropped_gradients = 0;
  std::uint64_t discarded_updates = 0;  // by loss scaling
  std::string divergence;               // what showed that the training has diverged; empty: none
  // For the model on one host: gradients of its workers, values, optimizer state; 0: unknown.
  std::uint64_t model_memory_bytes = 0;
  std::optional<double> steps_per_s;
  std::string final_text;  // output of the recipe at the end, such as generated text
};

// Samples that no worker trained on because workers were lost; an upper bound.
std::uint64_t lost_samples(const TrainingRecord& record);
// Their share in the samples of the training, 0 to 1.
double lost_share(const TrainingRecord& record);
// Returns a sentence on a lost worker: "worker 1 was lost after step 400; ...".
std::string lost_text(const LostWorker& worker);

// Returns one self-contained HTML page: curves of loss, accuracy and speed, the time of each
// worker, summary and configuration. Texts are escaped. Curves of many points are thinned such that
// their outline stays.
std::string report_html(const TrainingRecord& record);

// Returns the fields above under the same names; times in seconds ("elapsed_s", "compute_s");
// missing values are absent, values that are not finite are null. Texts may be invalid UTF-8: use
// dump() with error_handler_t::replace.
nlohmann::ordered_json to_json(const TrainingRecord& record);

}  // namespace tally::app
