#include "bench/policy/comparison.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/file.h"
#include "bench/common/words.h"
#include "process/child_process.h"
#include "process/temp_dir.h"

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
    const auto json = Json::parse(text);
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
  } catch (const Json::exception& error) {
    return corrupt(fmt::format("not the result of a training: {}", error.what()));
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

namespace {

std::vector<std::string> training_command(const PolicyOptions& options,
                                          const PolicyScenario& scenario,
                                          const PolicyContender& contender,
                                          const std::string& json) {
  std::vector<std::string> command = words(
      "{} train {} --data {} --workers {} --plan {} --steps {} --batch {} --rate {} --schedule "
      "linear --optimizer sgd --eval-every {} --json {} --device cpu --no-progress",
      process::own_program(), options.recipe, options.data, options.workers, contender.plan,
      options.steps, options.batch, options.rate, std::max(1, options.steps / options.evaluations),
      json);
  const auto add_if = [&command](bool wanted, const char* option, const std::string& value) {
    if (wanted) command.insert(command.end(), {option, value});
  };
  add_if(contender.plan.find("home=server") != std::string::npos, "--servers",
         std::to_string(options.servers));
  add_if(!scenario.straggle.empty(), "--straggle", scenario.straggle);
  add_if(!scenario.delay.empty(), "--delay", scenario.delay);
  add_if(options.threads > 0, "--threads", std::to_string(options.threads));
  return command;
}

Json json_of(const PolicyOptions& options, const PolicyResult& result, double target) {
  Json line;
  line["recipe"] = options.recipe;
  line["workers"] = options.workers;
  line["servers"] = options.servers;
  line["steps"] = options.steps;
  line["batch"] = options.batch;
  line["scenario"] = result.scenario;
  line["plan"] = result.contender;
  line["target_loss"] = target;
  line["steps_per_s"] = result.run.steps_per_s;
  line["accuracy"] = result.run.accuracy;
  line["accuracy_difference"] = result.accuracy_difference;
  line["mean_staleness"] = result.run.mean_staleness;
  line["dropped_gradients"] = result.run.dropped;
  if (result.to_target_s) line["to_target_s"] = *result.to_target_s;
  if (result.gain) line["gain"] = *result.gain;
  return line;
}

}  // namespace

Result<Report> run_policies(PolicyOptions options, process::Progress& progress) {
  TALLY_TRY(const auto folder, process::TempDir::make());
  MadeImages images;
  if (options.quick) {
    options.steps = std::min(options.steps, 24);
    options.evaluations = 4;
    options.batch = std::min(options.batch, 16);
    images = {.train = 2000, .test = 200};
  }
  if (options.data.empty()) {
    progress.stage("making images");
    options.data = folder->path() + "/images";
    TALLY_TRY(write_made_images(options.data, images));
  }
  const auto scenarios = policy_scenarios(options.workers);
  const auto contenders = policy_contenders();
  std::vector<PolicyRun> runs;
  for (const PolicyScenario& scenario : scenarios) {
    for (const PolicyContender& contender : contenders) {
      const std::string title = fmt::format("{}: {}", scenario.name, contender.name);
      progress.stage(title);
      const std::string json = fmt::format("{}/{}.json", folder->path(), runs.size());
      auto outcome = process::output_of(training_command(options, scenario, contender, json),
                                        Deadline::after(std::chrono::seconds(options.deadline_s)));
      if (!outcome) {
        outcome.error().message.insert(0, title + ": ");
        return std::move(outcome).error();
      }
      TALLY_TRY(runs.emplace_back(), read_policy_run(file_contents(json).value_or("")));
    }
  }
  const double target = loss_at(runs.front().points, 0.75);
  const auto results = compare_policies(scenarios, contenders, runs, target);
  Report report{.table = policy_table(results, target)};
  for (const PolicyResult& result : results)
    report.lines.push_back(json_of(options, result, target));
  return report;
}

}  // namespace tally::bench
