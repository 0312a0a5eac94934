#include "apps/tally/train_linear_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "apps/tally/child_process.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/linear_problem.h"
#include "apps/tally/linear_training.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally train linear
  tally train linear --workers 3 --samples 20000 --features 16 --json linear.jsonl

Starts its workers itself; where RANK and WORLD_SIZE are set, as under `tally run`, it joins that job instead.
Exit codes of its workers are as `tally run` has them.)";

constexpr double kTolerance = 1e-5;

struct Options {
  int workers = 2;
  LinearTraining training;
  std::string json;
};

struct Comparison {
  std::vector<double> exact;
  double largest_difference = 0;
};

Result<Comparison> compare_with_exact(const LinearSpec& spec, const std::vector<double>& learned) {
  TALLY_TRY(std::vector<double> exact, least_squares(generate(spec, {.count = spec.samples})));
  Comparison comparison{.exact = std::move(exact)};
  for (std::size_t k = 0; k < learned.size(); ++k) {
    const double difference = std::abs(learned[k] - comparison.exact[k]);
    comparison.largest_difference = std::max(comparison.largest_difference, difference);
  }
  return comparison;
}

void print_head(const Options& options, int workers) {
  const LinearSpec& spec = options.training.spec;
  fmt::print("linear regression: {} samples, {} features and an intercept, seed {}\n", spec.samples,
             spec.features, spec.seed);
  fmt::print("{} workers with", workers);
  for (Rank rank = 0; rank < workers; ++rank) {
    fmt::print("{}{}", rank == 0 ? " " : ", ", shard_of(spec.samples, rank, workers).count);
  }
  fmt::print(" samples; gradients averaged by samples\n");
}

// Steps 1, 2, 4, 8, ...: enough to see it converge.
void print_step(const LinearOutcome& outcome) {
  if ((outcome.steps & (outcome.steps - 1)) != 0) return;
  fmt::print("  step {:>5}  largest gradient {:.3e}\n", outcome.steps, outcome.largest_gradient);
  std::fflush(stdout);
}

void print_outcome(const LinearOutcome& outcome, const Comparison& comparison) {
  fmt::print("after {} steps the largest gradient is {:.3e}\n\n", outcome.steps,
             outcome.largest_gradient);
  fmt::print("  {:<10} {:>14} {:>14} {:>12}\n", "weight", "learned", "closed form", "difference");
  for (std::size_t k = 0; k < outcome.weights.size(); ++k) {
    const bool intercept = k + 1 == outcome.weights.size();
    fmt::print("  {:<10} {:>14.8f} {:>14.8f} {:>12.1e}\n",
               intercept ? "intercept" : fmt::format("w{}", k), outcome.weights[k],
               comparison.exact[k], outcome.weights[k] - comparison.exact[k]);
  }
  const bool matches = comparison.largest_difference <= kTolerance;
  fmt::print(
      "\nlargest difference {:.3e}: the learned weights {} the closed-form solution (tolerance "
      "{})\n",
      comparison.largest_difference, matches ? "match" : "DO NOT MATCH", kTolerance);
}

bool save_json(const Options& options, int workers, const LinearOutcome& outcome,
               const Comparison& comparison) {
  if (options.json.empty()) return true;
  const LinearTraining& training = options.training;
  nlohmann::ordered_json line;
  line["train"] = "linear";
  line["workers"] = workers;
  line["samples"] = training.spec.samples;
  line["features"] = training.spec.features;
  line["seed"] = training.spec.seed;
  line["rate"] = training.rate;
  line["steps"] = outcome.steps;
  line["largest_gradient"] = outcome.largest_gradient;
  line["largest_difference"] = comparison.largest_difference;
  line["matches"] = comparison.largest_difference <= kTolerance;
  line["learned"] = outcome.weights;
  line["closed_form"] = comparison.exact;
  line["commit"] = kCommit;
  std::ofstream file(options.json, std::ios::app);
  file << line.dump() << "\n";
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

// This process as one rank. Only rank 0 prints and compares; true if that went well.
Result<bool> run_rank(const Options& options) {
  TALLY_TRY(const std::unique_ptr<Job> job, Job::join());
  const bool speaks = job->rank() == 0;
  if (speaks) print_head(options, job->size());
  TALLY_TRY(const LinearOutcome outcome,
            train_linear(*job, options.training, [speaks](const LinearOutcome& so_far) {
              if (speaks) print_step(so_far);
            }));
  const int workers = job->size();
  job->close();
  if (!speaks) return true;
  TALLY_TRY(const Comparison comparison,
            compare_with_exact(options.training.spec, outcome.weights));
  print_outcome(outcome, comparison);
  const bool saved = save_json(options, workers, outcome, comparison);
  return saved && comparison.largest_difference <= kTolerance;
}

std::vector<std::string> worker_command(const Options& options) {
  const LinearTraining& training = options.training;
  std::vector<std::string> command = {own_program(),
                                      "train",
                                      "linear",
                                      "--samples",
                                      std::to_string(training.spec.samples),
                                      "--features",
                                      std::to_string(training.spec.features),
                                      "--seed",
                                      std::to_string(training.spec.seed),
                                      "--noise",
                                      fmt::format("{}", training.spec.noise),
                                      "--steps",
                                      std::to_string(training.max_steps),
                                      "--rate",
                                      fmt::format("{}", training.rate)};
  if (!options.json.empty()) command.insert(command.end(), {"--json", options.json});
  return command;
}

int run_workers(const Options& options) {
  std::error_code failed;
  return launch::run_job({.command = worker_command(options),
                          .places = {{.host = "localhost", .first = 0, .count = options.workers}},
                          .job = "train-linear",
                          .speaker = "tally train linear",
                          .folder = std::filesystem::current_path(failed).string(),
                          // The workers share this machine with whatever else runs here.
                          .binding = launch::Binding::kNone,
                          .prefixes = false});
}

int run(const Options& options) {
  const bool is_rank = std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
  if (!is_rank) return run_workers(options);
  const auto outcome = run_rank(options);
  if (!outcome)
    fmt::print(stderr, "rank {}: {}\n", std::getenv("RANK"), to_string(outcome.error()));
  return outcome && *outcome ? 0 : 1;
}

}  // namespace

void add_train_linear_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand(
      "linear", "Linear regression by several workers, compared with the closed-form solution");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  LinearTraining& training = o->training;
  command.add_option("--workers", o->workers, "Processes to start")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--samples", training.spec.samples, "Samples of all workers together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--features", training.spec.features, "Weights beside the intercept")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--noise", training.spec.noise, "Standard deviation of the noise")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--steps", training.max_steps, "Most steps to take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--rate", training.rate, "Learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--seed", training.spec.seed, "Of data and noise")->capture_default_str();
  command.add_option("--json", o->json, "Append the outcome as one JSON line");
  command.callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tally::app
