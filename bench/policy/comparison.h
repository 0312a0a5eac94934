#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/report.h"
#include "process/progress.h"
#include "tally/error.h"

namespace tally::bench {

struct PolicyOptions {
  std::string recipe = "lenet";
  std::string data;  // empty: generated images
  int workers = 4;
  int servers = 2;
  int steps = 480;
  int evaluations = 16;
  int batch = 64;
  double rate = 0.04;
  int threads = 0;       // 0: the default of `tally train`
  int deadline_s = 300;  // of a training
  bool quick = false;    // a few small steps each
};

// Slow-downs of the workers.
struct PolicyScenario {
  std::string name;
  std::string straggle;  // as `tally train --straggle`
  std::string delay;     // as `tally train --delay`
};
std::vector<PolicyScenario> policy_scenarios(int workers);

struct PolicyContender {
  std::string name;
  std::string plan;  // as `tally train --plan`
};
std::vector<PolicyContender> policy_contenders();

// One evaluation of a training.
struct PolicyPoint {
  double at_s = 0;
  double test_loss = 0;
};

struct PolicyRun {
  std::vector<PolicyPoint> points;  // by time
  double elapsed_s = 0;
  double steps_per_s = 0;
  double accuracy = 0;  // at the end
  double mean_staleness = 0;
  std::uint64_t dropped = 0;
};
// Parses the output of `tally train --json`. kCorrupt for other texts.
Result<PolicyRun> read_policy_run(std::string_view json);

// Returns when the test loss first reached `loss`, interpolated between evaluations; nothing if it
// never did.
std::optional<double> time_to(const std::vector<PolicyPoint>& points, double loss);
// Returns the loss at this share of the training time.
double loss_at(const std::vector<PolicyPoint>& points, double share);

struct PolicyResult {
  std::string scenario;
  std::string contender;
  std::optional<double> to_target_s;
  std::optional<double> gain;      // relative to the first contender in the same scenario
  double accuracy_difference = 0;  // to the first contender in the first scenario, in points
  PolicyRun run;
};
// Compares the runs; `runs` are by scenario, then by contender.
std::vector<PolicyResult> compare_policies(const std::vector<PolicyScenario>& scenarios,
                                           const std::vector<PolicyContender>& contenders,
                                           const std::vector<PolicyRun>& runs, double target_loss);
std::string policy_table(const std::vector<PolicyResult>& results, double target_loss);

struct MadeImages {
  std::uint64_t train = 20000;
  std::uint64_t test = 2000;
  std::uint64_t seed = 1;
};

// Writes generated 28 x 28 images of ten classes in the idx format: each is one of several pictures
// of its class under strong noise, so that a training needs no external data.
Result<void> write_made_images(const std::filesystem::path& folder, const MadeImages& what);

// Trains all contenders in all scenarios. The target is the loss of the first training after three
// quarters of its time. There is a line for each training.
Result<Report> run_policies(PolicyOptions options, process::Progress& progress);

}  // namespace tally::bench
