#include "apps/tally/commands.h"

#include <memory>
#include <string>

#include "apps/tally/bench_scaffold.h"
#include "bench/policy/comparison.h"

namespace tally::app {
namespace {

constexpr const char* kBenchPolicyFooter = R"(
Examples:
  tally bench policy --json policy.jsonl
  tally bench policy --quick
  tally bench policy --data fashion-mnist --recipe lenet --steps 300

The benchmark repeats one training with different plans and with slowed-down workers. It measures
the time until the test loss reaches that of the first training after three quarters of its time.
bench/policy/README.md explains the results.)";

}  // namespace

void add_bench_policy_command(Command bench) {
  Command command =
      bench.add_command("policy", "Time to a loss under update policies, with slow workers");
  command.footer(kBenchPolicyFooter);
  const auto o = std::make_shared<bench::PolicyOptions>();
  const auto json = std::make_shared<std::string>();
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
  add_json_option(command, json.get(), " per training");
  command.add("--quick", &o->quick, "A few small steps each, as a test");
  command.action([o, json] {
    return run_bench("policy", *json, [&](auto& progress) { return run_policies(*o, progress); });
  });
}

}  // namespace tally::app
