#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/common/report.h"
#include "bench/common/rounds.h"
#include "bench/train/launches.h"
#include "bench/train/model_facts.h"
#include "process/progress.h"

namespace tally::bench::train {

struct ComparisonOptions {
  std::vector<ModelFacts> models;
  Workers workers;  // the problem's folder is set for each model
  // In addition to `tally` and `single`:
  bool against_torch = false;
  bool against_ddp = false;
  bool with_graphs = false;
  TimingOptions timing = {};
};

// All timed steps of one contender with one model, whose losses agreed with those of the others.
struct Measurement {
  std::string model;
  std::string contender;  // tally, tally-graphs, single, torch, ddp
  int ranks = 1;
  std::string unit;                // samples or tokens
  double units_per_step = 0;       // of all ranks
  std::vector<double> samples_ms;  // of a step; on a GPU of the mean step of each round
  // The same for forward and backward passes alone; of tally with one rank.
  std::vector<double> passes_ms = {};
  double difference = 0;  // largest relative difference of a loss
  std::string version;    // of torch
};

struct Comparison {
  std::vector<Measurement> measurements;
  Failures failures;
  int rounds = 0;  // the least of all models
};

// For each model: starts the contenders, compares the losses of their first steps, and times those
// that agree. In each round every contender has a turn, so that noise of the machine affects all
// alike. A contender that fails is ended and reported, and the others continue. Stops early when
// the process is interrupted.
//
// Contenders with as many ranks must have the same losses as most of them, see judge(). Those of N
// ranks are also compared with a plain loop over the batches of all N ranks, and those of one rank
// with a loop in the other language, or without Python with one rank of tally.
Comparison compare(const ComparisonOptions& options, process::Progress& progress);

// Returns units per second at the median step; nothing without measurements.
std::optional<double> units_per_second(const Measurement& measurement);

// `measurement` relative to others of its model.
struct Standing {
  std::optional<double> over_torch;  // relative to torch, which has one rank
  std::optional<double> over_ddp;    // relative to ddp with as many ranks
  std::optional<double> efficiency;  // relative to `single` times the number of ranks
  // The share of a step that is neither forward nor backward. Negative if it is less than the noise
  // of the measurement.
  std::optional<double> other_work;
};
Standing standing(const Measurement& measurement, const Comparison& comparison);

// There is a line for each contender and model that was measured.
Report report_on(const Comparison& comparison, const Workers& workers);

}  // namespace tally::bench::train
