#include "apps/tally/bench_worker_command.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/algorithm_names.h"
#include "bench/allreduce/tally_worker.h"
#include "tally/job.h"

namespace tally::app {
namespace {

struct Options {
  std::string folder;
  std::string transport = "shm";
  std::string algorithm = "auto";
};

// "mpi...", as launch_tally_mpi() has it. Two hosts: the lower half of the ranks, and the upper.
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

Result<void> run(const Options& options) {
  TALLY_TRY(JobOptions job, options_from([](const char* name) { return std::getenv(name); }));
  if (options.transport.starts_with("mpi")) use_mpi(job, options.transport);
  job.transport = options.transport == "tcp"   ? TransportKind::kTcp
                  : options.transport == "tls" ? TransportKind::kTls
                                               : TransportKind::kShm;
  return bench::run_tally_worker(job, {.folder = options.folder,
                                       .shared_buffers = options.transport != "shm-plain",
                                       .algorithm = *parse_algorithm(options.algorithm)});
}

}  // namespace

void add_bench_worker_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand("bench-worker");
  command.group("");  // not listed in the help
  const auto options = std::make_shared<Options>();
  command.add_option("--folder", options->folder)->required();
  command.add_option("--transport", options->transport);
  command.add_option("--algorithm", options->algorithm)->check(CLI::IsMember(algorithm_names()));
  command.callback([options, &exit_code] {
    const Result<void> outcome = run(*options);
    if (!outcome) fmt::print(stderr, "{}\n", to_string(outcome.error()));
    exit_code = outcome ? 0 : 1;
  });
}

}  // namespace tally::app
