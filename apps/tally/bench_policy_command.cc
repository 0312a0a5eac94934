#include "apps/tally/commands.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "base/file.h"
#include "bench/common/report.h"
#include "bench/policy/comparison.h"
#include "bench/policy/made_images.h"
#include "process/child_process.h"
#include "process/interrupt.h"
#include "process/progress.h"
#include "process/temp_dir.h"

namespace tally::app {
namespace {

constexpr const char* kProgram = "tally bench policy";

constexpr const char* kBenchPolicyFooter = R"(
Examples:
  tally bench policy --json policy.jsonl
  tally bench policy --quick
  tally bench policy --data fashion-mnist --recipe lenet --steps 300

The benchmark repeats one training with different plans and with slowed-down workers. It measures
the time until the test loss reaches that of the first training after three quarters of its time.
bench/policy/README.md explains the results.)";

struct PolicyBenchOptions {
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

class PolicyBench {
 public:
  PolicyBench(PolicyBenchOptions options, std::string folder)
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
    std::vector<std::string> words = {process::own_program(), "train", options_.recipe};
    const auto add = [&words](const char* option, const std::string& value) {
      if (value.empty()) return;
      words.emplace_back(option);
      words.push_back(value);
    };
    add("--data", options_.data);
    add("--workers", text(options_.workers));
    add("--plan", contender.plan);
    add("--steps", text(options_.steps));
    add("--batch", text(options_.batch));
    add("--rate", text(options_.rate));
    add("--schedule", "linear");
    add("--optimizer", "sgd");
    add("--eval-every", text(std::max(1, options_.steps / options_.evaluations)));
    add("--json", json);
    add("--device", "cpu");
    words.emplace_back("--no-progress");
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
    return bench::read_policy_run(file_contents(json).value_or(""));
  }

  PolicyBenchOptions options_;
  const std::string folder_;
  double target_ = 0;
  process::Progress progress_;
};

void write_policy_json(std::ostream& out, const PolicyBenchOptions& options,
                       const std::vector<bench::PolicyResult>& results, double target) {
  for (const bench::PolicyResult& result : results) {
    nlohmann::ordered_json line = bench::json_line("policy", bench::host_facts(kCommit));
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
    out << line.dump() << "\n";
  }
}

int run_policy_bench(PolicyBenchOptions options) {
  if (options.quick) {
    options.steps = std::min(options.steps, 24);
    options.evaluations = 4;
    options.batch = std::min(options.batch, 16);
  }
  const auto folder = process::TempDir::make();
  if (!folder) return fail(kProgram, folder.error());
  const process::InterruptGuard guard;
  std::vector<bench::PolicyResult> results;
  double target = 0;
  {
    PolicyBench bench(options, (*folder)->path());
    auto outcome = bench.run();
    if (process::interrupted() != 0) return process::kInterruptedExitCode;
    if (!outcome) return fail(kProgram, outcome.error());
    results = *std::move(outcome);
    target = bench.target();
  }
  return bench::publish(bench::policy_table(results, target), options.json, [&](std::ostream& out) {
    write_policy_json(out, options, results, target);
  });
}

}  // namespace

void add_bench_policy_command(Command bench) {
  Command command =
      bench.add_command("policy", "Time to a loss under update policies, with slow workers");
  command.footer(kBenchPolicyFooter);
  const auto o = std::make_shared<PolicyBenchOptions>();
  command.add("--recipe", &o->recipe, "Recipe to train", {.value = "NAME"});
  command.add("--data", &o->data, "As `tally train --data`; default: generated images",
              {.value = "NAME|PATH"});
  command.add("--workers", &o->workers, "Worker processes", {.least = 2, .most = 1024});
  command.add("--servers", &o->servers, "Server processes", {.least = 1, .most = 1024});
  command.add("--steps", &o->steps, "Of each training", {.least = 4, .most = 1 << 20});
  command.add("--evaluations", &o->evaluations, "In each training", {.least = 2, .most = 1000});
  command.add("--batch", &o->batch, "Samples per worker and step", {.least = 1, .most = 1 << 16});
  command.add("--rate", &o->rate, "Learning rate", {.least = 0, .above_least = true});
  command.add("--threads", &o->threads, "Per worker; default: cores / workers",
              {.least = 1, .most = 1024});
  command.add("--deadline", &o->deadline_s, "Seconds after which a training counts as hung",
              {.least = 1, .most = 3600});
  command.add("--json", &o->json, "Append one JSON line per training; - is stdout",
              {.value = "FILE"});
  command.add("--quick", &o->quick, "A few small steps each, as a test");
  command.action([o] { return run_policy_bench(*o); });
}

}  // namespace tally::app
