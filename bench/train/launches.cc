#include "bench/train/launches.h"

#include <vector>

#include "bench/common/words.h"

namespace tally::bench::train {
namespace {

process::Variables thread_variable(const Workers& workers) {
  return {{"OMP_NUM_THREADS", std::to_string(workers.threads)}};
}

// Returns the command of a worker that is this program, without options of the contender.
std::vector<std::string> worker_command(const Workers& workers, const Launch& launch,
                                        const std::vector<std::string>& options) {
  std::vector<std::string> command =
      words("{} bench-worker --folder {} --problem {} --contender {} --threads {}",
            process::own_program(), launch.folder->path(), workers.problem, launch.contender,
            workers.threads);
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

Result<Launch> launch_python(const Workers& workers, const std::string& contender, int ranks,
                             const std::string& option) {
  TALLY_TRY(Launch launch, Launch::make(contender, "", ranks));
  TALLY_TRY(launch.add_python_ranks(workers.python, kDdpWorkerSource,
                                    words("{} {} " + option, workers.problem, workers.threads),
                                    workers.threads));
  return launch;
}

}  // namespace

Result<Launch> launch_tally(const Workers& workers) {
  TALLY_TRY(Launch launch, Launch::make("tally", "", workers.ranks));
  std::vector<std::string> options =
      words("--bucket {} --plan {}", workers.bucket_bytes, workers.plan);
  if (workers.in_place) options.emplace_back("--in-place");
  TALLY_TRY(
      launch.add_tally_ranks(worker_command(workers, launch, options), thread_variable(workers)));
  return launch;
}

Result<Launch> launch_plain(const Workers& workers, const std::string& contender, int parts) {
  TALLY_TRY(Launch launch, Launch::make(contender, "", 1));
  launch.add(worker_command(workers, launch, words("--parts {}", parts)), thread_variable(workers));
  return launch;
}

Result<Launch> launch_ddp(const Workers& workers) {
  return launch_python(workers, "ddp", workers.ranks, "");
}

Result<Launch> launch_python_twin(const Workers& workers) {
  return launch_python(workers, "python twin", 1, "--plain");
}

}  // namespace tally::bench::train
