#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::app {

// A row of the configuration as the report shows it: "batch per worker", "64".
struct RecordRow {
  std::string key;
  std::string value;
};

// What was known after a step. All but `step` and `epoch` may be missing: a point may be a training
// loss alone, or an evaluation. Values that are not finite are shown as such.
struct RecordPoint {
  std::uint64_t step = 0;               // steps done, of all epochs
  double epoch = 0;                     // epochs done: 1.5 is the middle of the second
  std::optional<double> train_loss;     // mean per sample since the point before
  std::optional<double> test_loss;      // mean per sample of the test or validation part
  std::optional<double> accuracy;       // of that part, 0 to 1
  std::optional<double> auc;            // likewise, where the answers are yes or no
  std::optional<double> samples_per_s;  // of all workers since the point before
  double at_s = 0;                      // since the training began
};

// Where one worker's time went, all in all.
struct WorkerTimes {
  Rank rank = 0;
  std::string host;
  Duration compute{};
  Duration communicate{};
  Duration wait{};  // for other workers
  Duration data{};  // for samples not there yet
};

// Something to remember: "target accuracy 0.89 reached", "resumed from step 1200", "checkpoint
// written".
struct RecordEvent {
  std::uint64_t step = 0;
  std::string text;
};

// What there is to say of a training, while it runs or after it. A plain value.
struct TrainingRecord {
  std::string recipe;            // "lenet"
  std::string data;              // "fashion-mnist"
  std::string started;           // for people, such as "2026-05-01 12:00 UTC"
  std::string outcome;           // "completed", "target accuracy reached", "interrupted"...
  std::string unit = "samples";  // what is counted: samples, or tokens
  int workers = 1;
  std::uint64_t parameters = 0;  // numbers that are trained
  std::uint64_t steps = 0;
  double epochs = 0;
  std::uint64_t samples = 0;         // of all workers
  Duration elapsed{};                // of the training itself, evaluations included
  std::optional<double> train_loss;  // the last ones
  std::optional<double> test_loss;
  std::optional<double> accuracy;
  std::optional<double> best_accuracy;
  std::optional<double> auc;
  std::optional<double> samples_per_s;   // on the whole
  std::vector<RecordRow> configuration;  // in the order to show
  std::vector<RecordPoint> points;       // by step, ascending
  std::vector<WorkerTimes> times;        // by rank
  std::vector<RecordEvent> events;       // in the order they happened
  // Gradients of all workers: how many were applied 0, 1, 2, ... updates late, and how many were
  // not applied.
  std::vector<std::uint64_t> staleness;
  std::uint64_t dropped_gradients = 0;
  std::optional<double> steps_per_s;
  std::string final_text;  // what the recipe says at the end, such as text that a gpt wrote
};

// One HTML page that needs nothing else: curves of loss, accuracy and speed, the time split per
// worker, summary and configuration. Whatever the texts contain is shown as text. Curves of many
// points are thinned so that their outline stays.
std::string report_html(const TrainingRecord& record);

// Everything above under the same names; times in seconds ("elapsed_s", "compute_s"); missing
// values are absent, values that are not finite are null. A text that is no UTF-8 stays as it is:
// dump() with error_handler_t::replace.
nlohmann::ordered_json to_json(const TrainingRecord& record);

}  // namespace tally::app
