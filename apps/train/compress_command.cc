#include "apps/train/compress_command.h"

#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/build_info.h"
#include "base/cpu.h"
#include "bench/codec/codec_list.h"
#include "bench/compress/accuracy.h"
#include "bench/compress/contest.h"
#include "bench/compress/report.h"
#include "group/host.h"
#include "process/interrupt.h"
#include "process/progress.h"

namespace tally::app {
namespace {

namespace bc = bench::compress;

constexpr int kWrongUsage = 2;

constexpr const char* kFooter = R"(
Examples:
  tally bench compress --json compress.jsonl
  tally bench compress --models mlp --links 1gbit --codecs none,int8,topk:0.01,auto --steps 20
  tally bench compress --models gpt --plans "codec=none;codec=none schedule=priority"
  tally bench compress --accuracy --codecs none,int8,sign --epochs 6

Two hosts on this machine: network namespaces with a cable between them, whose speed is limited in each direction; they are
made and removed again, for which it takes root. One worker on each trains a model of `tally bench train` with each plan in turn.
With --accuracy instead: a recipe on both hosts, its accuracy at the end with each plan. bench/compress/README.md says how to read it.

Exit codes: 0 everything was measured; 1 something failed; 2 wrong usage, or no root; 130 interrupted.)";

struct Options {
  std::vector<std::string> models = {"mlp", "gpt"};
  std::vector<std::string> links = {"100mbit", "1gbit", "none"};
  std::string codecs = "none,bf16,int8,sign,topk:0.01,dgc:0.001,warmup=0,powersgd:2,auto";
  std::string plans;
  int threads = 1;
  int steps = 10;
  int rounds = 3;
  int deadline_s = 300;
  bool accuracy = false;
  bc::AccuracyOptions training;
  std::string json;
};

std::vector<std::string> plans_of(const Options& options) {
  if (!options.plans.empty()) return *bc::parse_plans(options.plans);
  std::vector<std::string> plans = *bench::codecs::parse_codec_list(options.codecs);
  for (std::string& plan : plans) plan.insert(0, "codec=");
  return plans;
}

bool save(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path.empty()) return true;
  if (path == "-") {
    write(std::cout);
    return true;
  }
  std::ofstream file(path, std::ios::app);
  write(file);
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", path);
  return static_cast<bool>(file);
}

int fail(const Error& error, int code) {
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  fmt::print(stderr, "tally bench compress: {}\n", error.message);
  return code;
}

int run_accuracy(const Options& options, bc::Hosts& hosts, const bc::ReportContext& context) {
  bc::AccuracyOptions training = options.training;
  training.plans = plans_of(options);
  Result<std::vector<bc::Accuracy>> results = std::vector<bc::Accuracy>{};
  {
    process::Progress progress;
    const auto shaped = hosts.shape(options.links.back());
    if (!shaped) return fail(shaped.error(), 1);
    results = bc::train_all(training, hosts, progress);
  }
  if (!results) return fail(results.error(), 1);
  fmt::print("{}", bc::accuracy_text(training, *results));
  return save(options.json,
              [&](std::ostream& out) { write_accuracy_json(out, training, *results, context); })
             ? 0
             : 1;
}

int run_contest(const Options& options, bc::Hosts& hosts, const bc::ReportContext& context) {
  bc::ContestOptions contest{.links = options.links,
                             .plans = plans_of(options),
                             .threads = options.threads,
                             .rounds = options.rounds,
                             .steps = options.steps,
                             .command_timeout = std::chrono::seconds(options.deadline_s)};
  for (const std::string& name : options.models)
    contest.models.push_back(*bench::train::find_model(name));
  bc::Contest result;
  {
    process::Progress progress;
    result = compete(contest, hosts, progress);
  }
  fmt::print("{}", table_text(result, context));
  const bool saved =
      save(options.json, [&](std::ostream& out) { write_json(out, result, context); });
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  return saved && result.failures.empty() ? 0 : 1;
}

int run(const Options& options) {
  const bc::ReportContext context{.commit = kCommit,
                                  .host = group::host_name(),
                                  .cores = usable_cores(),
                                  .threads = options.threads};
  const process::InterruptGuard guard;
  const auto hosts = bc::Hosts::make();
  if (!hosts)
    return fail(hosts.error(), hosts.error().code == ErrorCode::kInvalid ? kWrongUsage : 1);
  return options.accuracy ? run_accuracy(options, **hosts, context)
                          : run_contest(options, **hosts, context);
}

// What is wrong with a text, for CLI11; empty: nothing.
template <typename T>
std::string problem_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

void add_what(CLI::App& app, Options& o) {
  app.add_option("--models", o.models, "Of `tally bench train`: mlp, cnn, gpt")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& text) { return problem_of(bench::train::find_model(text)); },
          "MODEL"))
      ->capture_default_str();
  app.add_option("--links", o.links, "Speed in each direction; none: as fast as the machine is")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& text) { return problem_of(bc::check_link(text)); }, "LINK"))
      ->capture_default_str();
  auto* const codecs =
      app.add_option("--codecs", o.codecs, "As in a plan; others are compared with the first")
          ->check(CLI::Validator(
              [](const std::string& text) {
                return problem_of(bench::codecs::parse_codec_list(text));
              },
              "LIST"))
          ->capture_default_str();
  app.add_option("--plans", o.plans, "Whole plans instead, with ; between them")
      ->check(CLI::Validator(
          [](const std::string& text) { return problem_of(bc::parse_plans(text)); }, "PLANS"))
      ->excludes(codecs);
}

void add_how(CLI::App& app, Options& o) {
  app.add_option("--threads", o.threads, "Of each worker")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "Timed steps of each plan in each round")
      ->check(CLI::Range(1, 250))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--deadline", o.deadline_s, "Seconds after which a plan counts as hung")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--json", o.json, "Append one JSON line per model, link and plan; - is stdout");
  auto* const accuracy = app.add_flag(
      "--accuracy", o.accuracy, "Train a recipe to its end instead, over the last of --links");
  app.add_option("--recipe", o.training.recipe)->capture_default_str()->needs(accuracy);
  app.add_option("--data", o.training.data)->capture_default_str()->needs(accuracy);
  app.add_option("--epochs", o.training.epochs)
      ->check(CLI::Range(1, 10000))
      ->capture_default_str()
      ->needs(accuracy);
  app.add_option("--seeds", o.training.seeds, "Trainings of each plan")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->needs(accuracy);
  app.add_option("--workers", o.training.workers, "On both hosts together; even")
      ->check(CLI::Range(2, 1024) & CLI::Validator(
                                        [](const std::string& text) -> std::string {
                                          return (text.back() - '0') % 2 == 0
                                                     ? ""
                                                     : "half of them are on each host";
                                        },
                                        ""))
      ->capture_default_str()
      ->needs(accuracy);
  app.add_option("--train-option", o.training.more, "A further word for `tally train`; repeatable")
      ->needs(accuracy);
}

}  // namespace

int run_compress_command(const std::vector<std::string>& words) {
  CLI::App app("What codecs are worth between two hosts, by the link's speed",
               "tally bench compress");
  app.footer(kFooter);
  Options options;
  add_what(app, options);
  add_how(app, options);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return run(options);
}

}  // namespace tally::app
