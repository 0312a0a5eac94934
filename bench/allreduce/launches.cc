#include "bench/allreduce/launches.h"

#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"

namespace tally::bench {
namespace {

constexpr auto kToolTimeout = std::chrono::seconds(60);

Deadline tool_deadline() { return SteadyClock().after(kToolTimeout); }

Error missing(const std::string& what) { return {.code = ErrorCode::kInvalid, .message = what}; }

Result<Launch> new_launch(const std::string& contender, const std::string& transport, int ranks) {
  Launch launch{.contender = contender, .transport = transport, .ranks = ranks};
  TALLY_TRY(launch.folder, process::TempDir::make());
  return launch;
}

std::string log_of(const Launch& launch) { return launch.folder->path() + "/log"; }

Result<std::string> write_source(const Launch& launch, const char* name, const char* text) {
  const std::string path = launch.folder->path() + "/" + name;
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return path;
  return Error{.code = ErrorCode::kSystem, .message = "cannot write " + path};
}

struct MpiTools {
  std::string run;
  std::string compile;
};

// Whether this launcher belongs to the MPI called `name`.
bool is_mpi(const std::string& name, const std::string& mpirun) {
  const auto version = process::output_of({mpirun, "--version"}, tool_deadline());
  if (!version) return false;
  const bool open_mpi = version->find("Open MPI") != std::string::npos;
  const bool mpich = version->find("HYDRA") != std::string::npos;
  return name == "openmpi" ? open_mpi : mpich;
}

// "DIR/mpicc.openmpi" belongs to "DIR/mpirun.openmpi".
std::optional<MpiTools> tools_beside(const std::string& mpirun) {
  const auto run = process::find_program(mpirun);
  if (!run) return std::nullopt;
  const std::size_t slash = run->rfind('/');
  const std::size_t dot = run->find('.', slash);
  const std::string suffix = dot == std::string::npos ? "" : run->substr(dot);
  const auto compile = process::find_program(run->substr(0, slash) + "/mpicc" + suffix);
  if (!compile) return std::nullopt;
  return MpiTools{.run = *run, .compile = *compile};
}

Result<MpiTools> find_mpi(const std::string& name, const std::string& mpirun) {
  std::vector<std::string> candidates = {"mpirun." + name, "mpirun", "mpiexec"};
  if (!mpirun.empty()) candidates.insert(candidates.begin(), mpirun);
  for (const std::string& candidate : candidates) {
    const auto tools = tools_beside(candidate);
    if (tools && is_mpi(name, tools->run)) return *tools;
  }
  return missing(name == "openmpi"
                     ? "Open MPI is not installed: packages openmpi-bin and libopenmpi-dev"
                     : "MPICH is not installed: packages mpich and libmpich-dev");
}

struct FoundMpi {
  std::string name;
  MpiTools tools;
};

// Returns the MPI that the transport names, or the first that is installed.
Result<FoundMpi> find_mpi_of(const std::string& transport, const std::string& mpirun) {
  for (const char* const name : {"openmpi", "mpich"}) {
    if (transport.find(name) == std::string::npos) continue;
    TALLY_TRY(const MpiTools tools, find_mpi(name, mpirun));
    return FoundMpi{.name = name, .tools = tools};
  }
  if (const auto tools = find_mpi("openmpi", mpirun))
    return FoundMpi{.name = "openmpi", .tools = *tools};
  TALLY_TRY(const MpiTools tools, find_mpi("mpich", mpirun));
  return FoundMpi{.name = "mpich", .tools = tools};
}

// Ranks are bound to cores if there are enough; see README.md.
std::vector<std::string> mpi_flags(const std::string& name, bool oversubscribed) {
  if (name == "mpich")
    return oversubscribed ? std::vector<std::string>{}
                          : std::vector<std::string>{"-bind-to", "core"};
  std::vector<std::string> flags = {"--allow-run-as-root", "--bind-to",
                                    oversubscribed ? "none" : "core"};
  if (oversubscribed) flags.push_back("--oversubscribe");
  return flags;
}

std::vector<std::string> mpi_command(const std::string& name, const MpiTools& tools, int ranks) {
  const bool oversubscribed = ranks > static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::string> command = {tools.run, "-n", std::to_string(ranks)};
  for (const std::string& flag : mpi_flags(name, oversubscribed)) command.push_back(flag);
  return command;
}

}  // namespace

std::vector<std::string> mpi_transports() {
  std::vector<std::string> names;
  for (const char* const library : {"mpi", "mpi-openmpi", "mpi-mpich"})
    for (const char* const inside : {"", "+shm", "+hosts"})
      names.push_back(std::string(library) + inside);
  return names;
}

Result<Launch> launch_tally_mpi(int ranks, const std::string& transport,
                                const std::string& mpirun) {
  TALLY_TRY(const FoundMpi mpi, find_mpi_of(transport, mpirun));
  TALLY_TRY(Launch launch, new_launch("tally", transport, ranks));
  std::vector<std::string> command = mpi_command(mpi.name, mpi.tools, ranks);
  for (const std::string& word :
       {process::own_program(), std::string("bench-worker"), std::string("--folder"),
        launch.folder->path(), std::string("--transport"), transport})
    command.push_back(word);
  launch.processes.push_back({.command = command, .log_file = log_of(launch)});
  return launch;
}

Result<Launch> launch_tally(int ranks, const std::string& transport, const std::string& algorithm) {
  TALLY_TRY(Launch launch, new_launch("tally", transport, ranks));
  TALLY_TRY(launch.job, process::LocalJob::make(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    launch.processes.push_back(
        {.command = {process::own_program(), "bench-worker", "--folder", launch.folder->path(),
                     "--transport", transport, "--algorithm", algorithm},
         .variables = launch.job->variables(rank),
         .log_file = log_of(launch)});
  }
  return launch;
}

Result<Launch> launch_gloo(int ranks, const std::string& python) {
  constexpr const char* kHasTorch =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  if (!process::find_program(python) ||
      !process::output_of({python, "-c", kHasTorch}, tool_deadline())) {
    return missing(
        fmt::format("{} has no torch: package python3-torch, or another --python", python));
  }
  TALLY_TRY(Launch launch, new_launch("gloo", "tcp", ranks));
  TALLY_TRY(const std::string script, write_source(launch, "gloo_worker.py", kGlooWorkerSource));
  for (Rank rank = 0; rank < ranks; ++rank) {
    launch.processes.push_back({.command = {python, script, launch.folder->path()},
                                .variables = {{"RANK", std::to_string(rank)},
                                              {"WORLD_SIZE", std::to_string(ranks)},
                                              {"OMP_NUM_THREADS", "1"},
                                              {"GLOO_SOCKET_IFNAME", "lo"}},
                                .log_file = log_of(launch)});
  }
  return launch;
}

Result<Launch> launch_mpi(int ranks, const std::string& name, const std::string& mpirun) {
  TALLY_TRY(const MpiTools tools, find_mpi(name, mpirun));
  TALLY_TRY(Launch launch, new_launch(name, "shm", ranks));
  TALLY_TRY(const std::string source, write_source(launch, "mpi_worker.c", kMpiWorkerSource));
  const std::string worker = launch.folder->path() + "/mpi_worker";
  const auto built =
      process::output_of({tools.compile, "-O2", "-o", worker, source}, tool_deadline());
  if (!built) return missing(fmt::format("{}: {}", name, built.error().message));

  std::vector<std::string> command = mpi_command(name, tools, ranks);
  command.push_back(worker);
  command.push_back(launch.folder->path());
  launch.processes.push_back({.command = command, .log_file = log_of(launch)});
  return launch;
}

}  // namespace tally::bench
