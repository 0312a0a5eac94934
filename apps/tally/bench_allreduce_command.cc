#include "apps/tally/bench_allreduce_command.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/algorithm_names.h"
#include "apps/tally/build_info.h"
#include "base/clock.h"
#include "base/units.h"
#include "bench/allreduce/comparison.h"
#include "bench/allreduce/launches.h"
#include "bench/allreduce/memory_floor.h"
#include "bench/allreduce/report.h"
#include "process/interrupt.h"
#include "process/progress.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Example:
  tally bench allreduce --ranks 2 --bytes 4KiB,64KiB,1MiB,16MiB,64MiB --json allreduce.jsonl
  tally bench allreduce --transport shm,mpi-openmpi,mpi-mpich,mpi+shm --against openmpi,mpich

Every contender's result is compared with the known sum before it is timed. A peer that is not
installed is left out; that counts as a failure (exit code 1) only if --against names it.)";

struct Options {
  int ranks = 2;
  std::vector<std::string> sizes = {"4KiB", "64KiB", "1MiB", "16MiB", "64MiB"};
  std::vector<std::string> transports = {"shm", "shm-plain", "tcp", "tls"};
  std::vector<std::string> peers = {"gloo", "openmpi", "mpich"};
  bool peers_named = false;
  std::string algorithm = "auto";
  int rounds = 5;
  int slice_ms = 150;
  double minutes = 0;
  int deadline_s = 60;
  std::string python = "/usr/bin/python3";
  std::string mpirun;
  std::string json;
};

// Everybody who will be measured, and whether somebody who was asked for is not among them.
struct Field {
  std::vector<std::unique_ptr<bench::Contender>> contenders;
  std::vector<std::string> failures;
};

class FieldBuilder final {
 public:
  FieldBuilder(const Options& options, process::Progress& progress)
      : options_(options), progress_(progress) {}

  Field build() {
    for (const std::string& transport : options_.transports) {
      if (transport == "none") continue;
      add("tally " + transport,
          transport.starts_with("mpi")
              ? bench::launch_tally_mpi(options_.ranks, transport, options_.mpirun)
              : bench::launch_tally(options_.ranks, transport, options_.algorithm),
          true);
    }
    for (const std::string& peer : options_.peers) {
      if (peer == "none") continue;
      add(peer,
          peer == "gloo" ? bench::launch_gloo(options_.ranks, options_.python)
                         : bench::launch_mpi(options_.ranks, peer, options_.mpirun),
          options_.peers_named);
    }
    field_.contenders.push_back(bench::make_memory_floor(options_.ranks));
    return std::move(field_);
  }

 private:
  void add(const std::string& title, Result<bench::Launch> launch, bool wanted) {
    if (process::interrupted() != 0) return;
    if (!launch) {
      progress_.note(fmt::format("{}: {}: {}", wanted ? "missing" : "left out", title,
                                 launch.error().message));
      if (wanted) field_.failures.push_back(title + ": " + launch.error().message);
      return;
    }
    progress_.stage("starting " + title);
    const Duration timeout = std::chrono::seconds(options_.deadline_s);
    auto group = bench::WorkerGroup::start(std::move(*launch), SteadyClock().after(timeout));
    if (!group) {
      field_.failures.push_back(fmt::format("{}, start: {}", title, group.error().message));
      if (process::interrupted() == 0) progress_.note("failed: " + field_.failures.back());
      return;
    }
    field_.contenders.push_back(bench::make_contender(std::move(*group), timeout));
  }

  const Options& options_;
  process::Progress& progress_;
  Field field_;
};

bench::ReportContext context_of(const Options& options) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {.ranks = options.ranks,
          .cores = static_cast<int>(std::thread::hardware_concurrency()),
          .host = host.data(),
          .commit = kCommit,
          .algorithm = options.algorithm};
}

bool save_json(const Options& options, const bench::Comparison& comparison) {
  if (options.json.empty()) return true;
  if (options.json == "-") {
    write_json(std::cout, comparison, context_of(options));
    return true;
  }
  std::ofstream file(options.json, std::ios::app);
  write_json(file, comparison, context_of(options));
  file.close();
  if (!file) fmt::print(stderr, "cannot write {}\n", options.json);
  return static_cast<bool>(file);
}

int run(const Options& options) {
  bench::ComparisonOptions comparison_options{.rounds = options.rounds,
                                              .slice = std::chrono::milliseconds(options.slice_ms)};
  if (options.minutes > 0) {
    comparison_options.budget = std::chrono::seconds(static_cast<long>(options.minutes * 60));
  }
  for (const std::string& size : options.sizes) {
    comparison_options.sizes_bytes.push_back(*parse_bytes(size));
  }
  const process::InterruptGuard guard;
  bench::Comparison comparison;
  {
    process::Progress progress;
    Field field = FieldBuilder(options, progress).build();
    comparison = compare(std::move(field.contenders), comparison_options, progress);
    comparison.failures.insert(comparison.failures.begin(), field.failures.begin(),
                               field.failures.end());
  }
  // Whole rounds that were measured before an interruption are worth having.
  if (process::interrupted() != 0 && comparison.rounds == 0) return process::kInterruptedExitCode;
  fmt::print("{}", table_text(comparison, context_of(options)));
  const bool saved = save_json(options, comparison);
  if (process::interrupted() != 0) return process::kInterruptedExitCode;
  return saved && comparison.failures.empty() ? 0 : 1;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names = {"shm", "shm-plain", "tcp", "tls", "none"};
  for (const std::string& name : bench::mpi_transports()) names.push_back(name);
  return names;
}

std::string size_problem(const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) return bytes.error().message;
  const bool whole = *bytes > 0 && *bytes % sizeof(float) == 0;
  return whole ? "" : text + " is no whole number of float32 values";
}

}  // namespace

void add_bench_allreduce_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand(
      "allreduce", "Our all-reduce beside Gloo, Open MPI and MPICH, in one run");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("--ranks", o->ranks, "Processes of each contender")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  command.add_option("--bytes", o->sizes, "Sizes to reduce, such as 4KiB,64MiB")
      ->delimiter(',')
      ->check(CLI::Validator(size_problem, "SIZE"))
      ->capture_default_str();
  command
      .add_option(
          "--transport", o->transports,
          "Ours: shm (buffers in shared memory), shm-plain (ordinary memory), tcp, tls, "
          "none; with engine=mpi: mpi, mpi-openmpi or mpi-mpich, alone, with +shm (shared "
          "memory on one host) or with +hosts (as two hosts: shared memory inside, MPI across)")
      ->delimiter(',')
      ->check(CLI::IsMember(transport_names()))
      ->capture_default_str();
  CLI::Option* against =
      command.add_option("--against", o->peers, "Peers: gloo, openmpi, mpich, none")
          ->delimiter(',')
          ->check(CLI::IsMember({"gloo", "openmpi", "mpich", "none"}))
          ->capture_default_str();
  command.add_option("--algorithm", o->algorithm, "Of ours")
      ->check(CLI::IsMember(algorithm_names()))
      ->capture_default_str();
  command.add_option("--rounds", o->rounds, "Times that everybody is measured at every size")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command.add_option("--slice", o->slice_ms, "Milliseconds of each measurement in a round")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  command
      .add_option("--minutes", o->minutes, "Start no further round after this long; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--deadline", o->deadline_s, "Seconds after which a contender counts as hung")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command.add_option("--python", o->python, "Interpreter that has torch")->capture_default_str();
  command.add_option("--mpirun", o->mpirun, "Launcher of an MPI to use, mpicc beside it");
  command.add_option("--json", o->json, "Append one JSON line per contender and size; - is stdout");
  command.callback([o, against, &exit_code] {
    o->peers_named = against->count() > 0;
    exit_code = run(*o);
  });
}

}  // namespace tally::app
