#include "bench/compress/accuracy.h"

#include <filesystem>
#include <fstream>
#include <numeric>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/common/statistics.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::bench::compress {
namespace {

constexpr double kPoints = 100;

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
  std::vector<std::string> words = {
      tally,
      "run",
      "--hosts",
      fmt::format("{}:{},{}:{}", Hosts::address(0), each, Hosts::address(1), each),
      "--remote-shell",
      hosts.remote_shell(),
      "--",
      tally,
      "train",
      options.recipe,
      "--data",
      options.data,
      "--plan",
      plan,
      "--seed",
      std::to_string(seed),
      "--epochs",
      std::to_string(options.epochs),
      "--json",
      json,
      "--device",
      "cpu",
      "--no-progress"};
  words.insert(words.end(), options.more.begin(), options.more.end());
  return hosts.on(0, words);
}

// Adds the result of one training.
Result<void> train(const AccuracyOptions& options, const Hosts& hosts, int seed, Accuracy& result) {
  TALLY_TRY(const auto folder, process::TempDir::make());
  const std::string json = folder->path() + "/result.json";
  TALLY_TRY(const std::uint64_t before, hosts.sent_bytes());
  TALLY_TRY(process::output_of(command_of(options, hosts, result.plan, seed, json),
                               SteadyClock().after(options.training_timeout)));
  TALLY_TRY(const std::uint64_t after, hosts.sent_bytes());
  std::ostringstream text;
  text << std::ifstream(json).rdbuf();
  const nlohmann::json line = nlohmann::json::parse(text.str(), nullptr, false);
  if (!line.is_object() || !line["accuracy"].is_number() || !line["elapsed_s"].is_number())
    return Error{.code = ErrorCode::kCorrupt, .message = "the training has no accuracy"};
  result.accuracies.push_back(line["accuracy"].get<double>());
  result.elapsed_s.push_back(line["elapsed_s"].get<double>());
  result.sent_bytes.push_back(static_cast<double>(after - before) / 2);
  return {};
}

}  // namespace

Result<std::vector<Accuracy>> train_all(const AccuracyOptions& options, Hosts& hosts,
                                        process::Progress& progress) {
  std::vector<Accuracy> results;
  for (const std::string& plan : options.plans) {
    Accuracy& result = results.emplace_back(Accuracy{.plan = plan});
    for (int seed = 1; seed <= options.seeds; ++seed) {
      if (process::interrupted() != 0)
        return Error{.code = ErrorCode::kClosed, .message = "interrupted"};
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

std::string accuracy_text(const AccuracyOptions& options, const std::vector<Accuracy>& results) {
  std::string text = fmt::format(
      "{} on {}: {} workers on two hosts, {} epochs, {} "
      "seeds\n{:<30}{:>10}{:>9}{:>9}{:>10}{:>10}\n",
      options.recipe, options.data, options.workers, options.epochs, options.seeds, "plan",
      "accuracy", "range", "points", "seconds", "MB sent");
  for (const Accuracy& result : results)
    text += fmt::format("{:<30}{:>8.2f} %{:>9.2f}{:>+9.2f}{:>10.1f}{:>10.1f}\n",
                        short_name(result.plan), kPoints * mean(result.accuracies),
                        kPoints * range(result.accuracies),
                        kPoints * (mean(result.accuracies) - mean(results.front().accuracies)),
                        median(result.elapsed_s), median(result.sent_bytes) / kBytesPerMegabyte);
  return text;
}

void write_accuracy_json(std::ostream& out, const AccuracyOptions& options,
                         const std::vector<Accuracy>& results, const ReportContext& context) {
  for (const Accuracy& result : results) {
    nlohmann::ordered_json line = json_line("compress", context.machine);
    line["recipe"] = options.recipe;
    line["data"] = options.data;
    line["plan"] = result.plan;
    line["workers"] = options.workers;
    line["epochs"] = options.epochs;
    line["runs"] = result.accuracies.size();
    line["accuracies"] = result.accuracies;
    line["accuracy"] = mean(result.accuracies);
    line["accuracy_difference"] = mean(result.accuracies) - mean(results.front().accuracies);
    line["elapsed_s"] = median(result.elapsed_s);
    line["sent_bytes"] = median(result.sent_bytes);
    out << line.dump() << '\n';
  }
}

}  // namespace tally::bench::compress
