#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/common/report.h"
#include "bench/common/rounds.h"
#include "bench/compress/hosts.h"
#include "bench/train/launches.h"
#include "bench/train/model_facts.h"
#include "process/progress.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench::compress {

// Parses "codec=none;codec=int8 update=subset:1". kInvalid names the part that is no plan.
Result<std::vector<std::string>> parse_plans(const std::string& text);
// Returns the name of a plan in tables: "codec=int8" is "int8", plans with more words stay as they
// are.
std::string short_name(const std::string& plan);

struct PlanComparisonOptions {
  std::vector<train::ModelFacts> models;
  std::vector<std::string> links;  // as check_link() takes them
  std::vector<std::string> plans;  // the first is the baseline
  int threads = 1;                 // of each of the two workers
  train::TimingOptions timing = {};
};

// One plan with one model over one link.
struct Measurement {
  std::string model;
  std::string link;
  std::string plan;
  std::vector<double> samples_ms;  // timed steps
  std::vector<double> sent_bytes;  // by each host per step; one sample per round
  double loss_ratio = 0;           // after 20 steps over that of the first plan
  std::string said;                // log line about its choices
};

struct PlanComparison {
  std::vector<Measurement> measurements;
  Failures failures;
};

// For each model and link: starts two workers for each plan, one on each host, checks the losses of
// their first steps, and times them in rounds in which each plan has a turn. Without a codec, the
// first plan's losses must equal those of one process that sees all samples; other losses must be
// finite and not grow. A plan that fails is ended and reported, the rest go on. Stops early when
// the process is interrupted.
PlanComparison compare_plans(const PlanComparisonOptions& options, Hosts& hosts,
                             process::Progress& progress);

inline constexpr double kBytesPerMegabyte = 1e6;

// Returns the ratios of the best codec to the first plan at 1gbit on mlp, and of auto to the best
// and to the first plan everywhere, as far as measured.
std::vector<Target> targets_of(const PlanComparison& comparison);

// There is a line for each model, link and plan.
Report report_on(const PlanComparison& comparison, int threads);

// Options for measuring the effect of codecs on accuracy: `tally train RECIPE` on both hosts.
struct AccuracyOptions {
  std::string recipe = "lenet";
  std::string data = "fashion-mnist";
  std::vector<std::string> plans;  // the first is the baseline
  int workers = 4;                 // even: half of them on each host
  int epochs = 4;
  int seeds = 3;                  // seeds 1 to N
  std::vector<std::string> more;  // further words for `tally train`
  Duration training_timeout = std::chrono::minutes(30);
};

// Trains one plan after the other over the current link. The first failure ends it. There is a line
// for each plan.
Result<Report> compare_accuracy(const AccuracyOptions& options, Hosts& hosts,
                                process::Progress& progress);

}  // namespace tally::bench::compress
