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
  Workers workers;          // the problem's folder is set for each model
  bool against_ddp = true;  // in addition to `tally` and `single`
  TimingOptions timing = {};
};

// All timed steps of one contender with one model, whose losses agreed with those of the others.
struct Measurement {
  std::string model;
  std::string contender;  // tally, single, ddp
  int ranks = 1;
  std::string unit;           // samples or tokens
  double units_per_step = 0;  // of all ranks
  std::vector<double> samples_ms;
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
// Contenders of N ranks are compared with a plain loop over the batches of all N ranks, and with
// each other. `single` is compared with the same loop in Python, or without Python with one rank of
// tally.
Comparison compare(const ComparisonOptions& options, process::Progress& progress);

// Returns units per second at the median step; nothing without measurements.
std::optional<double> units_per_second(const Measurement& measurement);

// `measurement` relative to others of its model.
struct Standing {
  std::optional<double> over_ddp;    // relative to ddp with as many ranks
  std::optional<double> efficiency;  // relative to `single` times the number of ranks
};
Standing standing(const Measurement& measurement, const Comparison& comparison);

// There is a line for each contender and model that was measured.
Report report_on(const Comparison& comparison, const Workers& workers);

}  // namespace tally::bench::train
