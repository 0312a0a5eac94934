#include "apps/tally/commands.h"

#include <memory>
#include <string>

#include "apps/tally/bench_scaffold.h"
#include "bench/startup/startup.h"
#include "process/child_process.h"

namespace tally::app {
namespace {

constexpr const char* kBenchStartupFooter = R"(
Examples:
  tally bench startup
  tally bench startup -n 64 --runs 5 --json startup.jsonl

bench/startup/README.md explains the measurement.)";

}  // namespace

void add_bench_startup_command(Command bench, Command top) {
  Command command =
      bench.add_command("startup", "Time from `tally run` to the first all-reduce of all ranks");
  command.footer(kBenchStartupFooter);
  const auto o = std::make_shared<bench::StartupOptions>();
  const auto json = std::make_shared<std::string>();
  command.add("-n,--ranks", &o->ranks, "Ranks to start", {.least = 1, .most = 1024});
  command.add("--runs", &o->runs, "Number of runs", {.least = 1, .most = 10000});
  add_json_option(command, json.get(), "");
  command.action([o, json] {
    o->tally = process::own_program();
    return run_bench("startup", *json, [&](auto&) { return bench::measure_startup(*o); });
  });
  top.add_hidden_command("startup-worker").action([] {
    return exit_code_of(bench::run_startup_worker());
  });
}

}  // namespace tally::app
