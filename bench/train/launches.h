#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/common/worker_group.h"
#include "bench/train/model_facts.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench::train {

// The text of python_worker.py, so that the program needs no files beside it.
extern const char* const kPythonWorkerSource;

// How often and how long each contender is timed.
struct TimingOptions {
  int rounds = 5;
  int steps = 10;  // timed, of each contender in each round
  Duration command_timeout = std::chrono::minutes(5);
  std::uint64_t seed = 1;
};

// The settings that all workers of one comparison share.
struct Workers {
  std::string problem;  // folder that write_problem() filled
  int ranks = 2;
  int threads = 1;               // each
  std::size_t bucket_bytes = 0;  // of our trainer; 0: its default
  bool in_place = false;         // of our trainer
  bool graphs = false;           // of our trainer
  std::string plan = {};         // of our trainer
  std::string python = "/usr/bin/python3";
  Computation computation = {};
};

// Starts each contender on this machine with the ranks of `workers`. An error names what is not
// installed. Several ranks are assigned the GPUs round-robin.
Result<Launch> launch_tally(const Workers& workers);
// A plain libtorch loop in one process, which processes the batches of `parts` ranks in each step.
Result<Launch> launch_plain(const Workers& workers, const std::string& contender, int parts);
Result<Launch> launch_ddp(const Workers& workers);
// A plain PyTorch loop in Python, in one process, with the batches of rank 0.
Result<Launch> launch_torch(const Workers& workers, const std::string& contender);

}  // namespace tally::bench::train
