#include "bench/train/launches.h"

#include <chrono>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"

namespace tally::bench::train {
namespace {

constexpr auto kToolTimeout = std::chrono::seconds(60);

Result<Launch> new_launch(const std::string& contender, int ranks) {
  Launch launch{.contender = contender, .transport = "", .ranks = ranks};
  TALLY_TRY(launch.folder, process::TempDir::make());
  return launch;
}

std::string log_of(const Launch& launch) { return launch.folder->path() + "/log"; }

std::pair<std::string, std::string> thread_variable(const Workers& workers) {
  return {"OMP_NUM_THREADS", std::to_string(workers.threads)};
}

// Returns the command of a worker that is this program.
std::vector<std::string> worker_command(const Workers& workers, const Launch& launch) {
  return {process::own_program(),
          "bench-worker",
          "--folder",
          launch.folder->path(),
          "--problem",
          workers.problem,
          "--contender",
          launch.contender,
          "--threads",
          std::to_string(workers.threads)};
}

Result<void> has_torch(const std::string& python) {
  constexpr const char* kHasTorch =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  const Deadline by = SteadyClock().after(kToolTimeout);
  if (process::find_program(python) && process::output_of({python, "-c", kHasTorch}, by)) return {};
  return Error{.code = ErrorCode::kInvalid,
               .message = fmt::format("{} has no torch: package python3-torch, or another --python",
                                      python)};
}

Result<Launch> launch_python(const Workers& workers, const std::string& contender, int ranks,
                             bool plain) {
  TALLY_TRY(has_torch(workers.python));
  TALLY_TRY(Launch launch, new_launch(contender, ranks));
  const std::string script = launch.folder->path() + "/ddp_worker.py";
  std::ofstream file(script);
  file << kDdpWorkerSource;
  file.close();
  if (!file) return Error{.code = ErrorCode::kSystem, .message = "cannot write " + script};
  for (Rank rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> command = {workers.python, script, launch.folder->path(),
                                        workers.problem, std::to_string(workers.threads)};
    if (plain) command.emplace_back("--plain");
    launch.processes.push_back({.command = command,
                                .variables = {{"RANK", std::to_string(rank)},
                                              {"WORLD_SIZE", std::to_string(ranks)},
                                              {"GLOO_SOCKET_IFNAME", "lo"},
                                              thread_variable(workers)},
                                .log_file = log_of(launch)});
  }
  return launch;
}

}  // namespace

Result<Launch> launch_tally(const Workers& workers) {
  TALLY_TRY(Launch launch, new_launch("tally", workers.ranks));
  TALLY_TRY(launch.job, process::LocalJob::make(workers.ranks));
  for (Rank rank = 0; rank < workers.ranks; ++rank) {
    std::vector<std::string> command = worker_command(workers, launch);
    command.insert(command.end(),
                   {"--bucket", std::to_string(workers.bucket_bytes), "--plan", workers.plan});
    std::vector<std::pair<std::string, std::string>> variables = launch.job->variables(rank);
    variables.push_back(thread_variable(workers));
    launch.processes.push_back(
        {.command = command, .variables = variables, .log_file = log_of(launch)});
  }
  return launch;
}

Result<Launch> launch_plain(const Workers& workers, const std::string& contender, int parts) {
  TALLY_TRY(Launch launch, new_launch(contender, 1));
  std::vector<std::string> command = worker_command(workers, launch);
  command.insert(command.end(), {"--parts", std::to_string(parts)});
  launch.processes.push_back(
      {.command = command, .variables = {thread_variable(workers)}, .log_file = log_of(launch)});
  return launch;
}

Result<Launch> launch_ddp(const Workers& workers) {
  return launch_python(workers, "ddp", workers.ranks, false);
}

Result<Launch> launch_python_twin(const Workers& workers) {
  return launch_python(workers, "python twin", 1, true);
}

}  // namespace tally::bench::train
