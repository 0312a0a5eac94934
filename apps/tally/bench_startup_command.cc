#include "apps/tally/commands.h"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/build_info.h"
#include "base/cpu.h"
#include "bench/common/report.h"
#include "bench/common/statistics.h"
#include "bench/startup/startup.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr const char* kBenchStartupFooter = R"(
Examples:
  tally bench startup
  tally bench startup -n 64 --runs 5 --json startup.jsonl

bench/startup/README.md explains the measurement.)";

struct StartupBenchOptions {
  int ranks = 4;
  int runs = 20;
  std::string json;
};

nlohmann::ordered_json startup_line(const StartupBenchOptions& options,
                                    const bench::StartupTimes& times) {
  nlohmann::ordered_json line = bench::json_line("startup", bench::host_facts(kCommit));
  line["ranks"] = options.ranks;
  line["runs"] = options.runs;
  line["first_sum_s"] = bench::median(times.first_sum);
  line["first_sum_spread_s"] = bench::spread(times.first_sum);
  line["program_s"] = bench::median(times.program);
  return line;
}

int run_startup_bench(const StartupBenchOptions& options) {
  const process::InterruptGuard guard;
  const auto times = bench::measure_startup(
      {.tally = process::own_program(), .ranks = options.ranks, .runs = options.runs});
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  if (!times) return fail("tally bench startup", times.error());
  const double whole = bench::median(times->first_sum);
  const double program = bench::median(times->program);
  const std::string table = fmt::format(
      "{} ranks, {} cores, medians of {} runs\n"
      "  tally run to the first all-reduce  {:7.1f} ms  (half of the runs within {:.1f} ms)\n"
      "  start of the program itself        {:7.1f} ms\n"
      "  difference                         {:7.1f} ms\n",
      options.ranks, usable_cores(), options.runs, 1e3 * whole,
      1e3 * bench::spread(times->first_sum), 1e3 * program, 1e3 * (whole - program));
  return bench::publish(table, options.json, [&](std::ostream& out) {
    out << startup_line(options, *times).dump() << "\n";
  });
}

}  // namespace

void add_bench_startup_command(Command bench, Command top) {
  Command command =
      bench.add_command("startup", "Time from `tally run` to the first all-reduce of all ranks");
  command.footer(kBenchStartupFooter);
  const auto o = std::make_shared<StartupBenchOptions>();
  command.add("-n,--ranks", &o->ranks, "Ranks to start", {.least = 1, .most = 1024});
  command.add("--runs", &o->runs, "Number of runs", {.least = 1, .most = 10000});
  command.add("--json", &o->json, "Append one JSON line; - is stdout", {.value = "FILE"});
  command.action([o] { return run_startup_bench(*o); });
  top.add_hidden_command("startup-worker").action([] {
    return exit_code_of(bench::run_startup_worker());
  });
}

}  // namespace tally::app
