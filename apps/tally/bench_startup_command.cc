#include "apps/tally/bench_startup_command.h"

#include <fstream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "base/cpu.h"
#include "bench/allreduce/statistics.h"
#include "bench/startup/startup.h"
#include "group/host.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally bench startup
  tally bench startup -n 64 --runs 5 --json startup.jsonl

bench/startup/README.md says what is measured.)";

struct Options {
  int ranks = 4;
  int runs = 20;
  std::string json;
};

bool save_json(const Options& options, const bench::StartupTimes& times) {
  if (options.json.empty()) return true;
  nlohmann::ordered_json line;
  line["bench"] = "startup";
  line["commit"] = kCommit;
  line["host"] = group::host_name();
  line["cores"] = usable_cores();
  line["ranks"] = options.ranks;
  line["runs"] = options.runs;
  line["first_sum_s"] = bench::median(times.first_sum);
  line["first_sum_spread_s"] = bench::spread(times.first_sum);
  line["program_s"] = bench::median(times.program);
  std::ofstream file(options.json, std::ios::app);
  file << line.dump() << "\n";
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

int run(const Options& options) {
  const process::InterruptGuard guard;
  const auto times = bench::measure_startup(
      {.tally = process::own_program(), .ranks = options.ranks, .runs = options.runs});
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  if (!times) {
    fmt::print(stderr, "{}\n", to_string(times.error()));
    return 1;
  }
  const double whole = bench::median(times->first_sum);
  const double program = bench::median(times->program);
  fmt::print("{} ranks, {} cores, medians of {} runs\n", options.ranks, usable_cores(),
             options.runs);
  fmt::print(
      "  tally run to the first all-reduce  {:7.1f} ms  (half of the runs within {:.1f} ms)\n",
      1e3 * whole, 1e3 * bench::spread(times->first_sum));
  fmt::print("  the program's own start            {:7.1f} ms\n", 1e3 * program);
  fmt::print("  beyond                             {:7.1f} ms\n", 1e3 * (whole - program));
  return save_json(options, *times) ? 0 : 1;
}

}  // namespace

void add_bench_startup_command(CLI::App& bench, CLI::App& top, int& exit_code) {
  CLI::App& command =
      *bench.add_subcommand("startup", "From `tally run` to the first all-reduce of all ranks");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("-n,--ranks", o->ranks, "Ranks to start")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--runs", o->runs, "How often")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command.add_option("--json", o->json, "Append the outcome as one JSON line");
  command.callback([o, &exit_code] { exit_code = run(*o); });

  CLI::App& worker = *top.add_subcommand("startup-worker");
  worker.group("");  // not listed in the help
  worker.callback([&exit_code] {
    const Result<void> outcome = bench::run_startup_worker();
    if (!outcome) fmt::print(stderr, "{}\n", to_string(outcome.error()));
    exit_code = outcome ? 0 : 1;
  });
}

}  // namespace tally::app
