#include "bench/compress/comparison.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/file.h"
#include "bench/common/rounds.h"
#include "bench/common/statistics.h"
#include "bench/common/words.h"
#include "process/child_process.h"

namespace tally::bench::compress {
namespace {

constexpr double kPoints = 100;

// All seeds of one plan.
struct Accuracy {
  std::string plan;
  std::vector<double> accuracies;  // at the end
  std::vector<double> elapsed_s;   // of the training
  std::vector<double> sent_bytes;  // by each host, the start of the job included
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Returns the difference between the best and worst seed.
double range(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

std::vector<std::string> command_of(const AccuracyOptions& options, const Hosts& hosts,
                                    const std::string& plan, int seed, const std::string& json) {
  const int each = options.workers / 2;
  const std::string tally =
      (std::filesystem::path(process::own_program()).parent_path() / "tally").string();
  std::vector<std::string> command = words(
      "{} run --hosts {} --remote-shell {} -- {} train {} --data {} --plan {} --seed {} "
      "--epochs {} --json {} --device cpu --no-progress",
      tally, fmt::format("{}:{},{}:{}", Hosts::address(0), each, Hosts::address(1), each),
      hosts.remote_shell(), tally, options.recipe, options.data, plan, seed, options.epochs, json);
  command.insert(command.end(), options.more.begin(), options.more.end());
  return hosts.on(0, command);
}

// Adds the result of one training.
Result<void> train(const AccuracyOptions& options, const Hosts& hosts, int seed, Accuracy& result) {
  TALLY_TRY(const auto folder, process::TempDir::make());
  const std::string json = folder->path() + "/result.json";
  TALLY_TRY(const std::uint64_t before, hosts.sent_bytes());
  TALLY_TRY(process::output_of(command_of(options, hosts, result.plan, seed, json),
                               SteadyClock().after(options.training_timeout)));
  TALLY_TRY(const std::uint64_t after, hosts.sent_bytes());
  Json line = Json::parse(file_contents(json).value_or(""), nullptr, false);
  if (!line.is_object() || !line["accuracy"].is_number() || !line["elapsed_s"].is_number())
    return corrupt("the training has no accuracy");
  result.accuracies.push_back(line["accuracy"].get<double>());
  result.elapsed_s.push_back(line["elapsed_s"].get<double>());
  result.sent_bytes.push_back(static_cast<double>(after - before) / 2);
  return {};
}

Result<std::vector<Accuracy>> train_all(const AccuracyOptions& options, const Hosts& hosts,
                                        process::Progress& progress) {
  std::vector<Accuracy> results;
  for (const std::string& plan : options.plans) {
    Accuracy& result = results.emplace_back(Accuracy{.plan = plan});
    for (int seed = 1; seed <= options.seeds; ++seed) {
      TALLY_TRY(check_interrupted());
      progress.stage(fmt::format("{}, seed {} of {}", short_name(plan), seed, options.seeds));
      auto trained = train(options, hosts, seed, result);
      if (!trained) {
        trained.error().message.insert(0, fmt::format("{}, seed {}: ", plan, seed));
        return trained.error();
      }
    }
  }
  return results;
}

}  // namespace

Result<Report> compare_accuracy(const AccuracyOptions& options, Hosts& hosts,
                                process::Progress& progress) {
  TALLY_TRY(const std::vector<Accuracy> results, train_all(options, hosts, progress));
  Report report;
  report.table = fmt::format(
      "{} on {}: {} workers on two hosts, {} epochs, {} "
      "seeds\n{:<30}{:>10}{:>9}{:>9}{:>10}{:>10}\n",
      options.recipe, options.data, options.workers, options.epochs, options.seeds, "plan",
      "accuracy", "range", "points", "seconds", "MB sent");
  for (const Accuracy& result : results) {
    const double accuracy = mean(result.accuracies);
    const double difference = accuracy - mean(results.front().accuracies);
    report.table += fmt::format(
        "{:<30}{:>8.2f} %{:>9.2f}{:>+9.2f}{:>10.1f}{:>10.1f}\n", short_name(result.plan),
        kPoints * accuracy, kPoints * range(result.accuracies), kPoints * difference,
        median(result.elapsed_s), median(result.sent_bytes) / kBytesPerMegabyte);
    Json& line = report.lines.emplace_back();
    line["recipe"] = options.recipe;
    line["data"] = options.data;
    line["plan"] = result.plan;
    line["workers"] = options.workers;
    line["epochs"] = options.epochs;
    line["runs"] = result.accuracies.size();
    line["accuracies"] = result.accuracies;
    line["accuracy"] = accuracy;
    line["accuracy_difference"] = difference;
    line["elapsed_s"] = median(result.elapsed_s);
    line["sent_bytes"] = median(result.sent_bytes);
  }
  return report;
}

}  // namespace tally::bench::compress
