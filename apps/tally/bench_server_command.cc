#include "apps/tally/commands.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/algorithm_names.h"
#include "apps/tally/bench_scaffold.h"
#include "bench/server/run.h"
#include "bench/server/worker.h"
#include "process/interrupt.h"
#include "tally/job.h"

namespace tally::app {
namespace {

constexpr const char* kBenchServerFooter = R"(
Examples:
  tally bench server --workers 1,2 --servers 1 --transport shm,tcp,tls --json server.jsonl
  tally bench server --transport tcp --rounds 5

Servers and workers are processes on this machine. Dense: 64 MiB pushed, pulled, and both in one
round (both directions counted). Sparse: rounds of 20,000 random keys out of a million, rows of 1
and 64 values. Latency: a pull of 16 values. Contents are compared with the known sums before the
timing. Each run shows the raw speed measured just before: iperf3 on loopback for tcp and tls, a
memory copy of 64 MiB for shm.

Exit codes: 0 success; 1 something failed; 130 interrupted.)";

struct ServerBenchOptions {
  std::vector<int> workers = {1, 2};
  std::vector<int> servers = {1};
  std::vector<std::string> transports = {"shm", "tcp", "tls"};
  int rounds = 3;
  int slice_ms = 500;
  std::string only;
  std::string json;
};

std::vector<bench::servers::Series> settings_of(const ServerBenchOptions& options) {
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

bench::Report measure_servers(const ServerBenchOptions& options, process::Progress& progress) {
  std::vector<bench::servers::Series> all = settings_of(options);
  bool failed = false;
  for (int round = 0; round < options.rounds; ++round) {
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
  return report_on(all, failed);
}

struct ServerWorkerOptions {
  std::string transport = "shm";
  int slice_ms = 500;
  bench::servers::WorkerOptions worker;
};

Result<void> run_server_worker(const ServerWorkerOptions& options) {
  bench::servers::WorkerOptions worker = options.worker;
  worker.slice = std::chrono::milliseconds(options.slice_ms);
  worker.client.transport = transport_kind(options.transport);
  TALLY_TRY(const JobOptions job, options_from([](const char* name) -> const char* {
              return std::string_view(name) == "TALLY_SECRET_FILE" ? std::getenv(name) : nullptr;
            }));
  worker.client.secret = job.secret;
  return run_worker(worker);
}

}  // namespace

void add_bench_server_command(Command bench, Command top) {
  Command command =
      bench.add_command("server", "Parameter servers beside the speed of memory and network");
  command.footer(kBenchServerFooter);
  const auto o = std::make_shared<ServerBenchOptions>();
  command.add("--workers", &o->workers, "Worker processes",
              {.value = "N,...", .least = 1, .most = 64, .commas = true});
  command.add("--servers", &o->servers, "Server processes",
              {.value = "N,...", .least = 1, .most = 64, .commas = true});
  command.add("--transport", &o->transports, "Between workers and servers: shm, tcp, tls",
              {.value = "NAME,...", .choices = {"shm", "tcp", "tls"}, .commas = true});
  command.add("--rounds", &o->rounds, "Rounds; each measures every setting",
              {.least = 1, .most = 1000});
  command.add("--slice", &o->slice_ms, "Milliseconds of each measurement",
              {.least = 10, .most = 60000});
  command.add("--only", &o->only, "Cases whose name contains TEXT: \"dense pull\", sparse");
  add_json_option(command, &o->json, " per setting and case");
  command.action([o] {
    return run_bench("server", o->json,
                     [&](process::Progress& progress) { return measure_servers(*o, progress); });
  });

  Command worker = top.add_hidden_command("bench-server-worker");
  const auto w = std::make_shared<ServerWorkerOptions>();
  worker.add("--directory", &w->worker.client.directory, "", {.required = true});
  worker.add("--rank", &w->worker.client.rank);
  worker.add("--workers", &w->worker.workers);
  worker.add("--transport", &w->transport);
  worker.add("--slice", &w->slice_ms);
  worker.add("--only", &w->worker.only);
  worker.action([w] { return exit_code_of(run_server_worker(*w)); });
}

}  // namespace tally::app
