#include "apps/tally/commands.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/algorithm_names.h"
#include "apps/tally/bench_scaffold.h"
#include "base/clock.h"
#include "base/units.h"
#include "bench/allreduce/comparison.h"
#include "bench/allreduce/launches.h"
#include "process/interrupt.h"
#include "tally/job.h"

namespace tally::app {
namespace {

constexpr const char* kBenchAllreduceFooter = R"(
Examples:
  tally bench allreduce --ranks 2 --bytes 4KiB,64KiB,1MiB,16MiB,64MiB --json allreduce.jsonl
  tally bench allreduce --transport shm,mpi-openmpi,mpi-mpich,mpi+shm --against openmpi,mpich

The result of every contender is compared with the known sum before the contender is timed. A peer
that is not installed is left out; that is a failure (exit code 1) only if --against names it.)";

struct AllreduceBenchOptions {
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

class AllreduceBench final {
 public:
  AllreduceBench(const AllreduceBenchOptions& options, process::Progress& progress)
      : options_(options), progress_(progress) {}

  Result<bench::Report> run() {
    bench::ComparisonOptions comparison{.rounds = options_.rounds,
                                        .slice = std::chrono::milliseconds(options_.slice_ms)};
    if (options_.minutes > 0)
      comparison.budget = std::chrono::seconds(static_cast<long>(options_.minutes * 60));
    for (const std::string& size : options_.sizes)
      comparison.sizes_bytes.push_back(*parse_bytes(size));
    start_all();
    const bench::Comparison result =
        compare(std::move(contenders_), comparison, std::move(failures_), progress_);
    // Whole rounds that were measured before an interruption are reported.
    if (result.rounds == 0) TALLY_TRY(bench::check_interrupted());
    return report_on(result, options_.ranks, options_.algorithm);
  }

 private:
  void start_all() {
    for (const std::string& transport : options_.transports) {
      if (transport == "none") continue;
      start("tally " + transport,
            transport.starts_with("mpi")
                ? bench::launch_tally_mpi(options_.ranks, transport, options_.mpirun)
                : bench::launch_tally(options_.ranks, transport, options_.algorithm),
            true);
    }
    for (const std::string& peer : options_.peers) {
      if (peer == "none") continue;
      start(peer,
            peer == "gloo" ? bench::launch_gloo(options_.ranks, options_.python)
                           : bench::launch_mpi(options_.ranks, peer, options_.mpirun),
            options_.peers_named);
    }
    contenders_.push_back(bench::make_memory_floor(options_.ranks));
  }

  void start(const std::string& title, Result<bench::Launch> launch, bool wanted) {
    if (process::interrupted() != 0) return;
    if (!launch && wanted) return failures_.add(title, launch.error(), progress_);
    if (!launch) return progress_.note("left out: " + title + ": " + launch.error().message);
    progress_.stage("starting " + title);
    const Duration timeout = std::chrono::seconds(options_.deadline_s);
    auto group = bench::WorkerGroup::start(std::move(*launch), SteadyClock().after(timeout));
    if (!group) return failures_.add(title + ", start", group.error(), progress_);
    contenders_.push_back(bench::make_contender(std::move(*group), timeout));
  }

  const AllreduceBenchOptions& options_;
  process::Progress& progress_;
  std::vector<std::unique_ptr<bench::Contender>> contenders_;
  bench::Failures failures_;  // of contenders that were asked for
};

std::vector<std::string> transport_names() {
  std::vector<std::string> names = {"shm", "shm-plain", "tcp", "tls", "none"};
  for (const std::string& name : bench::mpi_transports()) names.push_back(name);
  return names;
}

std::string size_problem(const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) return bytes.error().message;
  const bool whole = *bytes > 0 && *bytes % sizeof(float) == 0;
  return whole ? "" : "need a multiple of 4 bytes, the size of float32";
}

struct AllreduceWorkerOptions {
  std::string folder;
  std::string transport = "shm";
  std::string algorithm = "auto";
};

// `transport`: "mpi...", as launch_tally_mpi() has it. "+hosts" pretends two hosts: the lower half
// of the ranks and the upper half.
void use_mpi(JobOptions& job, const std::string& transport) {
  job.engine = Engine::kMpi;
  job.mpi_inside = transport.find('+') == std::string::npos ? MpiInside::kMpi : MpiInside::kShm;
  if (transport.find("+hosts") == std::string::npos) return;
  const auto number = [](const char* open_mpi, const char* mpich) {
    const char* text = std::getenv(open_mpi);
    if (text == nullptr) text = std::getenv(mpich);
    return text == nullptr ? 0 : std::atoi(text);
  };
  const int rank = number("OMPI_COMM_WORLD_RANK", "PMI_RANK");
  const int ranks = number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
  job.host_label = 2 * rank < ranks ? "lower" : "upper";
}

Result<void> run_allreduce_worker(const AllreduceWorkerOptions& options) {
  TALLY_TRY(JobOptions job, options_from([](const char* name) { return std::getenv(name); }));
  if (options.transport.starts_with("mpi")) use_mpi(job, options.transport);
  job.transport = transport_kind(options.transport);
  return bench::run_tally_worker(job, {.folder = options.folder,
                                       .shared_buffers = options.transport != "shm-plain",
                                       .algorithm = *parse_algorithm(options.algorithm)});
}

}  // namespace

void add_bench_allreduce_command(Command bench, Command top) {
  Command command = bench.add_command(
      "allreduce", "All-reduce of tally beside Gloo, Open MPI and MPICH, in one run");
  command.footer(kBenchAllreduceFooter);
  const auto o = std::make_shared<AllreduceBenchOptions>();
  command.add("--ranks", &o->ranks, "Processes of each contender", {.least = 2, .most = 1024});
  command.add("--bytes", &o->sizes, "Sizes to reduce",
              {.value = "SIZE,...", .check = size_problem, .commas = true});
  command.add("--transport", &o->transports,
              "Of tally: shm (buffers in shared memory), shm-plain (ordinary memory), tcp, tls, "
              "none; with engine=mpi: mpi, mpi-openmpi or mpi-mpich, alone, with +shm (shared "
              "memory on one host) or with +hosts (as two hosts: shared memory inside, MPI across)",
              {.value = "NAME,...", .choices = transport_names(), .commas = true});
  command.add(
      "--against", &o->peers, "Peers: gloo, openmpi, mpich, none",
      {.value = "NAME,...", .choices = {"gloo", "openmpi", "mpich", "none"}, .commas = true});
  command.add("--algorithm", &o->algorithm, "Algorithm of tally",
              {.value = "NAME", .choices = algorithm_names()});
  command.add("--rounds", &o->rounds, "Rounds; each measures all contenders at all sizes",
              {.least = 1, .most = 10000});
  command.add("--slice", &o->slice_ms, "Milliseconds of each measurement in a round",
              {.least = 1, .most = 60000});
  command.add("--minutes", &o->minutes, "Start no further round after N minutes; 0: no limit",
              {.least = 0});
  command.add("--deadline", &o->deadline_s, "Seconds after which a contender counts as hung",
              {.least = 1, .most = 3600});
  command.add("--python", &o->python, "Interpreter with torch", {.value = "PATH"});
  command.add("--mpirun", &o->mpirun, "mpirun of the MPI to use, with mpicc beside it",
              {.value = "PATH"});
  add_json_option(command, &o->json, " per contender and size");
  command.action([o, command] {
    o->peers_named = command.given("--against");
    return run_bench("allreduce", o->json,
                     [&](auto& progress) { return AllreduceBench(*o, progress).run(); });
  });

  Command worker = top.add_hidden_command("bench-worker");
  const auto w = std::make_shared<AllreduceWorkerOptions>();
  worker.add("--folder", &w->folder, "", {.required = true});
  worker.add("--transport", &w->transport);
  worker.add("--algorithm", &w->algorithm, "", {.choices = algorithm_names()});
  worker.action([w] { return exit_code_of(run_allreduce_worker(*w)); });
}

}  // namespace tally::app
