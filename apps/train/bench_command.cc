#include "apps/train/bench_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/build_info.h"
#include "base/cpu.h"
#include "base/units.h"
#include "bench/train/comparison.h"
#include "bench/train/report.h"
#include "bench/train/torch_worker.h"
#include "group/host.h"
#include "process/interrupt.h"
#include "process/progress.h"

namespace tally::app {
namespace {

namespace bt = bench::train;

constexpr int kWrongUsage = 2;

constexpr const char* kFooter = R"(
Examples:
  tally bench train --model mlp,cnn,gpt --ranks 2 --against ddp --json train.jsonl
  tally bench train --model mlp --bucket 4MiB --rounds 10

Everybody trains the same model from the same weights with the same samples; the losses of 20 steps must agree before
anybody is timed. DDP is PyTorch's, of the interpreter that --python names. bench/train/README.md says how it measures.)";

struct Options {
  std::vector<std::string> models = {"mlp", "cnn", "gpt"};
  std::string against = "ddp";
  std::string bucket = "0";
  int ranks = 2;
  int threads = 1;
  int steps = 10;
  int rounds = 5;
  int deadline_s = 300;
  std::string python = "/usr/bin/python3";
  std::string json;
};

bt::ComparisonOptions comparison_options(const Options& options) {
  bt::ComparisonOptions comparison{.workers = {.ranks = options.ranks,
                                               .threads = options.threads,
                                               .bucket_bytes = *parse_bytes(options.bucket),
                                               .python = options.python},
                                   .against_ddp = options.against == "ddp",
                                   .rounds = options.rounds,
                                   .steps = options.steps,
                                   .command_timeout = std::chrono::seconds(options.deadline_s)};
  for (const std::string& name : options.models) comparison.models.push_back(*bt::find_model(name));
  return comparison;
}

bool save_json(const Options& options, const bt::Comparison& comparison,
               const bt::ReportContext& context) {
  if (options.json.empty()) return true;
  if (options.json == "-") {
    write_json(std::cout, comparison, context);
    return true;
  }
  std::ofstream file(options.json, std::ios::app);
  write_json(file, comparison, context);
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

int run(const Options& options) {
  const bt::ReportContext context{.threads = options.threads,
                                  .bucket_bytes = *parse_bytes(options.bucket),
                                  .cores = usable_cores(),
                                  .host = group::host_name(),
                                  .commit = kCommit};
  const process::InterruptGuard guard;
  bt::Comparison comparison;
  {
    process::Progress progress;
    comparison = compare(comparison_options(options), progress);
  }
  fmt::print("{}", table_text(comparison, context));
  const bool saved = save_json(options, comparison, context);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  return saved && comparison.failures.empty() ? 0 : 1;
}

std::string model_problem(const std::string& name) {
  const auto found = bt::find_model(name);
  return found ? "" : found.error().message;
}

std::string bucket_problem(const std::string& text) {
  const auto bytes = parse_bytes(text);
  return bytes ? "" : bytes.error().message;
}

void add_worker_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand("bench-worker");
  command.group("");  // not listed in the help
  const auto options = std::make_shared<bt::TorchWorkerOptions>();
  command.add_option("--folder", options->folder)->required();
  command.add_option("--problem", options->problem)->required();
  command.add_option("--contender", options->contender)->required();
  command.add_option("--threads", options->threads)->check(CLI::Range(1, 1024));
  command.add_option("--parts", options->parts)->check(CLI::Range(1, 1024));
  command.add_option("--bucket", options->bucket_bytes);
  command.add_option("--plan", options->plan);
  command.callback([options, &exit_code] {
    const Result<void> outcome =
        bt::run_torch_worker(*options, [](const char* name) { return std::getenv(name); });
    if (!outcome) fmt::print(stderr, "{}\n", to_string(outcome.error()));
    exit_code = outcome ? 0 : 1;
  });
}

}  // namespace

void add_bench_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand(
      "bench", "Our training beside PyTorch's DDP and one worker, in one run");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("--model", o->models, "What to train: mlp, cnn, gpt")
      ->delimiter(',')
      ->check(CLI::Validator(model_problem, "MODEL"))
      ->capture_default_str();
  command.add_option("--ranks", o->ranks, "Workers of ours and of DDP")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  command.add_option("--against", o->against, "Peer: ddp, or none")
      ->check(CLI::IsMember({"ddp", "none"}))
      ->capture_default_str();
  command.add_option("--threads", o->threads, "Of each worker")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--steps", o->steps, "Timed steps of everybody in each round")
      ->check(CLI::Range(1, 250))
      ->capture_default_str();
  command.add_option("--rounds", o->rounds, "Times that everybody is measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command
      .add_option("--bucket", o->bucket,
                  "Size of our buckets, such as 4MiB; 0: the trainer's default")
      ->check(CLI::Validator(bucket_problem, "SIZE"))
      ->capture_default_str();
  command.add_option("--deadline", o->deadline_s, "Seconds after which a contender counts as hung")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command.add_option("--python", o->python, "Interpreter that has torch")->capture_default_str();
  command.add_option("--json", o->json,
                     "Append one JSON line per contender and model; - is stdout");
  command.callback([o, &exit_code] { exit_code = run(*o); });
  add_worker_command(parent, exit_code);
}

int run_bench_command(const std::vector<std::string>& words) {
  CLI::App app("Measures training; `tally bench train` becomes it.", "tally");
  app.require_subcommand(1);
  int exit_code = 0;
  add_bench_command(app, exit_code);
  try {
    app.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the end
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return exit_code;
}

}  // namespace tally::app
