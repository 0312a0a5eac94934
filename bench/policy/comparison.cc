#include "bench/policy/comparison.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tally::bench {

std::vector<PolicyScenario> policy_scenarios(int workers) {
  return {{.name = "undisturbed", .straggle = {}, .delay = {}},
          {.name = "one 4x slower",
           .straggle = fmt::format("rank={},factor=4", workers - 1),
           .delay = {}},
          {.name = "random delays", .straggle = {}, .delay = "exponential:1x"}};
}

std::vector<PolicyContender> policy_contenders() {
  return {{"bsp", "home=server update=bsp"}, {"ssp:3", "home=server update=ssp:3"},
          {"asp", "home=server update=asp"}, {"backup:1", "home=server update=backup:1"},
          {"bsp, group", "update=bsp"},      {"backup:1, group", "update=backup:1"}};
}

Result<PolicyRun> read_policy_run(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    PolicyRun run{.elapsed_s = json.at("elapsed_s").get<double>(),
                  .steps_per_s = json.at("steps_per_s").get<double>(),
                  .accuracy = json.at("accuracy").get<double>(),
                  .dropped = json.at("dropped_gradients").get<std::uint64_t>()};
    for (const auto& point : json.at("points"))
      if (point.contains("test_loss"))
        run.points.push_back({.at_s = point.at("at_s").get<double>(),
                              .test_loss = point.at("test_loss").get<double>()});
    double applied = 0;
    double late = 0;
    std::size_t bin = 0;
    for (const auto& count : json.at("staleness")) {
      applied += count.get<double>();
      late += static_cast<double>(bin++) * count.get<double>();
    }
    if (applied > 0) run.mean_staleness = late / applied;
    return run;
  } catch (const nlohmann::json::exception& error) {
    return Error{.code = ErrorCode::kCorrupt,
                 .message = fmt::format("not the result of a training: {}", error.what())};
  }
}

std::optional<double> time_to(const std::vector<PolicyPoint>& points, double loss) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].test_loss > loss) continue;
    if (i == 0) return points[i].at_s;
    const PolicyPoint& before = points[i - 1];
    const double share = (before.test_loss - loss) / (before.test_loss - points[i].test_loss);
    return before.at_s + share * (points[i].at_s - before.at_s);
  }
  return std::nullopt;
}

double loss_at(const std::vector<PolicyPoint>& points, double share) {
  if (points.empty()) return 0;
  const double at = share * points.back().at_s;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].at_s < at) continue;
    if (i == 0) return points[i].test_loss;
    const PolicyPoint& before = points[i - 1];
    const double part = (at - before.at_s) / (points[i].at_s - before.at_s);
    return before.test_loss + part * (points[i].test_loss - before.test_loss);
  }
  return points.back().test_loss;
}

std::vector<PolicyResult> compare_policies(const std::vector<PolicyScenario>& scenarios,
                                           const std::vector<PolicyContender>& contenders,
                                           const std::vector<PolicyRun>& runs, double target_loss) {
  std::vector<PolicyResult> results;
  for (std::size_t s = 0; s < scenarios.size(); ++s) {
    std::optional<double> first;
    for (std::size_t c = 0; c < contenders.size() && results.size() < runs.size(); ++c) {
      const PolicyRun& run = runs[results.size()];
      PolicyResult result{.scenario = scenarios[s].name,
                          .contender = contenders[c].name,
                          .to_target_s = time_to(run.points, target_loss),
                          .accuracy_difference = 100 * (run.accuracy - runs.front().accuracy),
                          .run = run};
      if (c == 0) first = result.to_target_s;
      if (first && result.to_target_s) result.gain = *first / *result.to_target_s;
      results.push_back(std::move(result));
    }
  }
  return results;
}

std::string policy_table(const std::vector<PolicyResult>& results, double target_loss) {
  std::string text = fmt::format("time to a test loss of {:.4f}\n", target_loss);
  text +=
      fmt::format("{:<15} {:<16} {:>8} {:>7} {:>9} {:>9} {:>7} {:>9} {:>6}\n", "workers", "plan",
                  "seconds", "x bsp", "steps/s", "accuracy", "points", "staleness", "late");
  for (const PolicyResult& result : results) {
    const std::string seconds =
        result.to_target_s ? fmt::format("{:.2f}", *result.to_target_s) : "never";
    const std::string gain = result.gain ? fmt::format("{:.2f}", *result.gain) : "-";
    text += fmt::format("{:<15} {:<16} {:>8} {:>7} {:>9.1f} {:>7.2f} % {:>+7.2f} {:>9.2f} {:>6}\n",
                        result.scenario, result.contender, seconds, gain, result.run.steps_per_s,
                        100 * result.run.accuracy, result.accuracy_difference,
                        result.run.mean_staleness, result.run.dropped);
  }
  return text;
}

}  // namespace tally::bench
