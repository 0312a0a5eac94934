#include "apps/tally/bench_policy_command.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "base/cpu.h"
#include "bench/policy/contest.h"
#include "bench/policy/made_images.h"
#include "group/host.h"
#include "process/child_process.h"
#include "process/interrupt.h"
#include "process/progress.h"
#include "process/temp_dir.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally bench policy --json policy.jsonl
  tally bench policy --quick
  tally bench policy --data fashion-mnist --recipe lenet --steps 300

The same training again and again with other plans, and with workers that are slowed down: how long until the test loss is what
the first of them had after three quarters of its time. bench/policy/README.md says how to read it.)";

struct Options {
  std::string recipe = "lenet";
  std::string data;
  int workers = 4;
  int servers = 2;
  int steps = 480;
  int evaluations = 16;
  int batch = 64;
  double rate = 0.04;
  int threads = 0;
  int deadline_s = 300;
  std::string json;
  bool quick = false;
};

class Bench {
 public:
  Bench(Options options, std::string folder)
      : options_(std::move(options)), folder_(std::move(folder)) {}

  Result<std::vector<bench::PolicyResult>> run() {
    if (options_.data.empty()) {
      progress_.stage("making images");
      options_.data = folder_ + "/images";
      TALLY_TRY(bench::write_made_images(options_.data, made()));
    }
    const auto scenarios = bench::policy_scenarios(options_.workers);
    const auto contenders = bench::policy_contenders();
    std::vector<bench::PolicyRun> runs;
    for (const auto& scenario : scenarios) {
      for (const auto& contender : contenders) {
        progress_.stage(fmt::format("{}: {}", scenario.name, contender.name));
        TALLY_TRY(runs.emplace_back(), train(scenario, contender, runs.size()));
      }
    }
    target_ = bench::loss_at(runs.front().points, 0.75);
    return bench::compare_policies(scenarios, contenders, runs, target_);
  }
  double target() const { return target_; }

 private:
  bench::MadeImages made() const {
    return options_.quick ? bench::MadeImages{.train = 2000, .test = 200} : bench::MadeImages{};
  }

  std::vector<std::string> command(const bench::PolicyScenario& scenario,
                                   const bench::PolicyContender& contender,
                                   const std::string& json) const {
    const auto text = [](auto value) { return fmt::format("{}", value); };
    std::vector<std::string> words = {process::own_program(),
                                      "train",
                                      options_.recipe,
                                      "--data",
                                      options_.data,
                                      "--workers",
                                      text(options_.workers),
                                      "--plan",
                                      contender.plan,
                                      "--steps",
                                      text(options_.steps),
                                      "--batch",
                                      text(options_.batch),
                                      "--rate",
                                      text(options_.rate),
                                      "--schedule",
                                      "linear",
                                      "--optimizer",
                                      "sgd",
                                      "--eval-every",
                                      text(std::max(1, options_.steps / options_.evaluations)),
                                      "--json",
                                      json,
                                      "--no-progress",
                                      "--device",
                                      "cpu"};
    const auto add = [&words](const char* option, const std::string& value) {
      if (value.empty()) return;
      words.emplace_back(option);
      words.push_back(value);
    };
    if (contender.plan.find("home=server") != std::string::npos)
      add("--servers", text(options_.servers));
    add("--straggle", scenario.straggle);
    add("--delay", scenario.delay);
    if (options_.threads > 0) add("--threads", text(options_.threads));
    return words;
  }

  Result<bench::PolicyRun> train(const bench::PolicyScenario& scenario,
                                 const bench::PolicyContender& contender, std::size_t number) {
    const std::string json = fmt::format("{}/{}.json", folder_, number);
    const auto outcome =
        process::output_of(command(scenario, contender, json),
                           Deadline::after(std::chrono::seconds(options_.deadline_s)));
    if (!outcome)
      return Error{.code = outcome.error().code,
                   .message = fmt::format("{}, {}: {}", scenario.name, contender.name,
                                          outcome.error().message)};
    std::ostringstream text;
    text << std::ifstream(json).rdbuf();
    return bench::read_policy_run(text.str());
  }

  Options options_;
  const std::string folder_;
  double target_ = 0;
  process::Progress progress_;
};

bool append_json(const Options& options, const std::vector<bench::PolicyResult>& results,
                 double target) {
  std::ofstream file(options.json, std::ios::app);
  for (const bench::PolicyResult& result : results) {
    nlohmann::ordered_json line = {{"bench", "policy"},
                                   {"commit", kCommit},
                                   {"host", group::host_name()},
                                   {"cores", usable_cores()},
                                   {"recipe", options.recipe},
                                   {"workers", options.workers},
                                   {"servers", options.servers},
                                   {"steps", options.steps},
                                   {"batch", options.batch},
                                   {"scenario", result.scenario},
                                   {"plan", result.contender},
                                   {"target_loss", target},
                                   {"steps_per_s", result.run.steps_per_s},
                                   {"accuracy", result.run.accuracy},
                                   {"accuracy_difference", result.accuracy_difference},
                                   {"mean_staleness", result.run.mean_staleness},
                                   {"dropped_gradients", result.run.dropped}};
    if (result.to_target_s) line["to_target_s"] = *result.to_target_s;
    if (result.gain) line["gain"] = *result.gain;
    file << line.dump() << "\n";
  }
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

int fail(const Error& error) {
  fmt::print(stderr, "tally bench policy: {}\n", error.message);
  return 1;
}

int run(Options options) {
  if (options.quick) {
    options.steps = std::min(options.steps, 24);
    options.evaluations = 4;
    options.batch = std::min(options.batch, 16);
  }
  const auto folder = process::TempDir::make();
  if (!folder) return fail(folder.error());
  const process::InterruptGuard guard;
  std::vector<bench::PolicyResult> results;
  double target = 0;
  {
    Bench bench(options, (*folder)->path());
    auto outcome = bench.run();
    if (process::interrupted() != 0) return process::kInterruptedExitCode;
    if (!outcome) return fail(outcome.error());
    results = *std::move(outcome);
    target = bench.target();
  }
  fmt::print("{}", bench::policy_table(results, target));
  return options.json.empty() || append_json(options, results, target) ? 0 : 1;
}

}  // namespace

void add_bench_policy_command(CLI::App& parent, int& exit_code) {
  CLI::App& command =
      *parent.add_subcommand("policy", "Time to a loss under update policies, with slow workers");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("--recipe", o->recipe, "What to train")->capture_default_str();
  command.add_option("--data", o->data, "As `tally train --data`; default: images made for it");
  command.add_option("--workers", o->workers)->check(CLI::Range(2, 1024))->capture_default_str();
  command.add_option("--servers", o->servers)->check(CLI::Range(1, 1024))->capture_default_str();
  command.add_option("--steps", o->steps, "Of each training")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command.add_option("--evaluations", o->evaluations, "In each training")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command.add_option("--batch", o->batch, "Samples per worker and step")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--rate", o->rate)->check(CLI::PositiveNumber)->capture_default_str();
  command.add_option("--threads", o->threads, "Per worker; default: cores / workers")
      ->check(CLI::Range(1, 1024));
  command.add_option("--deadline", o->deadline_s, "Seconds after which a training counts as hung")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command.add_option("--json", o->json, "Append one JSON line per training");
  command.add_flag("--quick", o->quick, "A few small steps each: to see that it works");
  command.callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tally::app
