#include "apps/tally/bench_server_command.h"

#include <unistd.h>

#include <array>
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
#include "bench/server/contest.h"
#include "bench/server/report.h"
#include "bench/server/worker.h"
#include "process/interrupt.h"
#include "process/progress.h"
#include "tally/job.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally bench server --workers 1,2 --servers 1 --transport shm,tcp,tls --json server.jsonl
  tally bench server --transport tcp --rounds 5

Servers and workers are processes on this machine. Dense: 64 MiB pushed, pulled, and both in one round (both ways
counted). Sparse: rounds of 20,000 random keys out of a million, rows of 1 and 64 values. Latency: a pull of 16 values.
Contents are compared with the known sums before anything is timed. Each run is beside the raw figure of the
same minute: iperf3 on loopback for tcp and tls, a memory copy of 64 MiB for shm.

Exit codes: 0 everything was measured; 1 something failed; 130 interrupted.)";

struct Options {
  std::vector<int> workers = {1, 2};
  std::vector<int> servers = {1};
  std::vector<std::string> transports = {"shm", "tcp", "tls"};
  int rounds = 3;
  int slice_ms = 500;
  std::string only;
  std::string json;
};

bench::servers::ReportContext context() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {.commit = kCommit, .host = host.data(), .cores = usable_cores()};
}

std::vector<bench::servers::Series> settings_of(const Options& options) {
  std::vector<bench::servers::Series> all;
  for (const std::string& transport : options.transports)
    for (const int servers : options.servers)
      for (const int workers : options.workers)
        all.push_back({.setting = {.transport = transport,
                                   .workers = workers,
                                   .servers = servers,
                                   .only = options.only,
                                   .slice = std::chrono::milliseconds(options.slice_ms)},
                       .outcomes = {}});
  return all;
}

bool save_json(const Options& options, const std::vector<bench::servers::Series>& all) {
  if (options.json.empty()) return true;
  if (options.json == "-") {
    write_json(std::cout, all, context());
    return true;
  }
  std::ofstream file(options.json, std::ios::app);
  write_json(file, all, context());
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

int run(const Options& options) {
  const process::InterruptGuard guard;
  std::vector<bench::servers::Series> all = settings_of(options);
  bool failed = false;
  {
    process::Progress progress;
    for (int round = 0; round < options.rounds && process::interrupted() == 0; ++round) {
      for (bench::servers::Series& series : all) {
        if (process::interrupted() != 0) break;
        progress.stage(fmt::format("round {} of {}: {}, {} workers", round + 1, options.rounds,
                                   series.setting.transport, series.setting.workers));
        auto outcome = run_once(series.setting);
        if (outcome.has_value()) {
          series.outcomes.push_back(*std::move(outcome));
        } else if (process::interrupted() == 0) {
          progress.note("failed: " + outcome.error().message);
          failed = true;
        }
      }
    }
  }
  fmt::print("{}", table_text(all, context()));
  const bool saved = save_json(options, all);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  return saved && !failed ? 0 : 1;
}

struct WorkerOptions {
  std::string transport = "shm";
  int slice_ms = 500;
  bench::servers::WorkerOptions worker;
};

Result<void> work(const WorkerOptions& options) {
  bench::servers::WorkerOptions worker = options.worker;
  worker.slice = std::chrono::milliseconds(options.slice_ms);
  worker.client.transport = options.transport == "tcp"   ? TransportKind::kTcp
                            : options.transport == "tls" ? TransportKind::kTls
                                                         : TransportKind::kShm;
  TALLY_TRY(const JobOptions job, options_from([](const char* name) -> const char* {
              return std::string_view(name) == "TALLY_SECRET_FILE" ? std::getenv(name) : nullptr;
            }));
  worker.client.secret = job.secret;
  return bench::servers::run_worker(worker, [](const bench::servers::Figure& figure) {
    fmt::print("figure {}={}\n", figure.name, figure.value);
    std::fflush(stdout);
  });
}

void add_worker_command(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("bench-server-worker");
  command.group("");  // not listed in the help
  const auto o = std::make_shared<WorkerOptions>();
  command.add_option("--directory", o->worker.client.directory)->required();
  command.add_option("--rank", o->worker.client.rank);
  command.add_option("--workers", o->worker.workers);
  command.add_option("--transport", o->transport);
  command.add_option("--slice", o->slice_ms);
  command.add_option("--only", o->worker.only);
  command.callback([o, &exit_code] {
    const Result<void> outcome = work(*o);
    if (!outcome.has_value()) fmt::print(stderr, "{}\n", to_string(outcome.error()));
    exit_code = outcome.has_value() ? 0 : 1;
  });
}

}  // namespace

void add_bench_server_command(CLI::App& bench, CLI::App& app, int& exit_code) {
  CLI::App& command =
      *bench.add_subcommand("server", "Parameter servers beside what the machine can do");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("--workers", o->workers, "Worker processes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--servers", o->servers, "Server processes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--transport", o->transports, "How workers reach servers: shm, tcp, tls")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "tcp", "tls"}))
      ->capture_default_str();
  command.add_option("--rounds", o->rounds, "Times that every setting is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--slice", o->slice_ms, "Milliseconds of each measurement")
      ->check(CLI::Range(10, 60000))
      ->capture_default_str();
  command.add_option("--only", o->only, "Only cases whose name has this: \"dense pull\", sparse")
      ->type_name("TEXT");
  command.add_option("--json", o->json, "Append one JSON line per setting and case; - is stdout");
  command.callback([o, &exit_code] { exit_code = run(*o); });
  add_worker_command(app, exit_code);
}

}  // namespace tally::app
