#include "bench/allreduce/launches.h"

#include <chrono>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "bench/common/words.h"

namespace tally::bench {
namespace {

constexpr auto kToolTimeout = std::chrono::seconds(60);

Deadline tool_deadline() { return SteadyClock().after(kToolTimeout); }

struct Mpi {
  std::string name;
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

// Returns an MPI whose launcher is this program. "DIR/mpicc.openmpi" belongs to
// "DIR/mpirun.openmpi".
std::optional<Mpi> mpi_of(const std::string& name, const std::string& mpirun) {
  const auto run = process::find_program(mpirun);
  if (!run) return std::nullopt;
  const std::size_t slash = run->rfind('/');
  const std::size_t dot = run->find('.', slash);
  const std::string suffix = dot == std::string::npos ? "" : run->substr(dot);
  const auto compile = process::find_program(run->substr(0, slash) + "/mpicc" + suffix);
  if (!compile || !is_mpi(name, *run)) return std::nullopt;
  return Mpi{.name = name, .run = *run, .compile = *compile};
}

Result<Mpi> find_mpi(const std::string& name, const std::string& mpirun) {
  std::vector<std::string> candidates = {"mpirun." + name, "mpirun", "mpiexec"};
  if (!mpirun.empty()) candidates.insert(candidates.begin(), mpirun);
  for (const std::string& candidate : candidates)
    if (const auto mpi = mpi_of(name, candidate)) return *mpi;
  return invalid(name == "openmpi"
                     ? "Open MPI is not installed: packages openmpi-bin and libopenmpi-dev"
                     : "MPICH is not installed: packages mpich and libmpich-dev");
}

// Returns the MPI that the transport names, or the first that is installed.
Result<Mpi> find_mpi_of(const std::string& transport, const std::string& mpirun) {
  for (const char* const name : {"openmpi", "mpich"})
    if (transport.find(name) != std::string::npos) return find_mpi(name, mpirun);
  auto found = find_mpi("openmpi", mpirun);
  return found ? std::move(found) : find_mpi("mpich", mpirun);
}

// Ranks are bound to cores if there are enough; see README.md.
std::vector<std::string> mpi_command(const Mpi& mpi, int ranks,
                                     const std::vector<std::string>& worker) {
  const bool oversubscribed = ranks > static_cast<int>(std::thread::hardware_concurrency());
  std::string text = "{} -n {}";
  if (mpi.name == "mpich") {
    if (!oversubscribed) text += " -bind-to core";
  } else {
    text += oversubscribed ? " --allow-run-as-root --bind-to none --oversubscribe"
                           : " --allow-run-as-root --bind-to core";
  }
  std::vector<std::string> command = words(text, mpi.run, ranks);
  command.insert(command.end(), worker.begin(), worker.end());
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
  TALLY_TRY(const Mpi mpi, find_mpi_of(transport, mpirun));
  TALLY_TRY(Launch launch, Launch::make("tally", transport, ranks));
  launch.add(mpi_command(mpi, ranks,
                         words("{} bench-worker --folder {} --transport {}", process::own_program(),
                               launch.folder->path(), transport)));
  return launch;
}

Result<Launch> launch_tally(int ranks, const std::string& transport, const std::string& algorithm) {
  TALLY_TRY(Launch launch, Launch::make("tally", transport, ranks));
  TALLY_TRY(launch.add_tally_ranks(
      words("{} bench-worker --folder {} --transport {} --algorithm {}", process::own_program(),
            launch.folder->path(), transport, algorithm)));
  return launch;
}

Result<Launch> launch_gloo(int ranks, const std::string& python) {
  TALLY_TRY(Launch launch, Launch::make("gloo", "tcp", ranks));
  TALLY_TRY(launch.add_python_ranks(python, kGlooWorkerSource, {}, /*threads=*/1));
  return launch;
}

Result<Launch> launch_mpi(int ranks, const std::string& name, const std::string& mpirun) {
  TALLY_TRY(const Mpi mpi, find_mpi(name, mpirun));
  TALLY_TRY(Launch launch, Launch::make(name, "shm", ranks));
  TALLY_TRY(const std::string source, launch.write("mpi_worker.c", kMpiWorkerSource));
  const std::string worker = launch.folder->path() + "/mpi_worker";
  const auto built =
      process::output_of({mpi.compile, "-O2", "-o", worker, source}, tool_deadline());
  if (!built) return invalid(fmt::format("{}: {}", name, built.error().message));
  launch.add(mpi_command(mpi, ranks, {worker, launch.folder->path()}));
  return launch;
}

}  // namespace tally::bench
