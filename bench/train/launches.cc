#include "bench/train/launches.h"

#include <vector>

#include "bench/common/words.h"

namespace tally::bench::train {
namespace {

process::Variables thread_variable(const Workers& workers) {
  return {{"OMP_NUM_THREADS", std::to_string(workers.threads)}};
}

// Returns the options that workers of both languages have.
std::vector<std::string> common_options(const Workers& workers) {
  const Computation& computation = workers.computation;
  std::vector<std::string> options =
      words("--threads {} --device {} --precision {}", workers.threads, computation.device,
            computation.precision);
  if (computation.tf32) options.emplace_back("--tf32");
  if (computation.channels_last) options.emplace_back("--channels-last");
  return options;
}

// Returns the command of a worker that is this program. `kind`: tally, plain.
std::vector<std::string> worker_command(const Workers& workers, const Launch& launch,
                                        const std::string& kind,
                                        const std::vector<std::string>& options) {
  std::vector<std::string> command =
      words("{} bench-worker --folder {} --problem {} --contender {}", process::own_program(),
            launch.folder->path(), workers.problem, kind);
  for (const std::vector<std::string>& more : {common_options(workers), options})
    command.insert(command.end(), more.begin(), more.end());
  return command;
}

Result<Launch> launch_python(const Workers& workers, const std::string& contender, int ranks,
                             const std::vector<std::string>& options) {
  TALLY_TRY(Launch launch, Launch::make(contender, "", ranks));
  std::vector<std::string> arguments = {workers.problem};
  for (const std::vector<std::string>& more : {common_options(workers), options})
    arguments.insert(arguments.end(), more.begin(), more.end());
  TALLY_TRY(
      launch.add_python_ranks(workers.python, kPythonWorkerSource, arguments, workers.threads));
  return launch;
}

}  // namespace

Result<Launch> launch_tally(const Workers& workers) {
  TALLY_TRY(Launch launch,
            Launch::make(workers.graphs ? "tally-graphs" : "tally", "", workers.ranks));
  std::vector<std::string> options =
      words("--bucket {} --plan {}", workers.bucket_bytes, workers.plan);
  if (workers.in_place) options.emplace_back("--in-place");
  if (workers.graphs) options.emplace_back("--graphs");
  TALLY_TRY(launch.add_tally_ranks(worker_command(workers, launch, "tally", options),
                                   thread_variable(workers)));
  return launch;
}

Result<Launch> launch_plain(const Workers& workers, const std::string& contender, int parts) {
  TALLY_TRY(Launch launch, Launch::make(contender, "", 1));
  launch.add(worker_command(workers, launch, "plain", words("--parts {}", parts)),
             thread_variable(workers));
  return launch;
}

Result<Launch> launch_ddp(const Workers& workers) {
  return launch_python(workers, "ddp", workers.ranks, {});
}

Result<Launch> launch_torch(const Workers& workers, const std::string& contender) {
  return launch_python(workers, contender, 1, {"--plain"});
}

}  // namespace tally::bench::train
