#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::bench {

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

}  // namespace tally::bench
