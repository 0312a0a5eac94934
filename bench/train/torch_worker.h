#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "bench/train/model_facts.h"
#include "tally/error.h"

namespace tally::bench::train {

struct TorchWorkerOptions {
  std::string folder;     // contains the pipes
  std::string problem;    // folder of write_problem()
  std::string contender;  // "tally" joins the job of the environment; otherwise a plain loop
  Computation computation;
  int parts = 1;  // of a plain loop
  int threads = 1;
  std::size_t bucket_bytes = 0;
  bool in_place = false;
  bool graphs = false;
  std::string plan = {};
};

// A worker in C++: serves the commands of its pipe until that closes; see python_worker.py for the
// protocol. A worker of tally with one rank has one command more: "passes STEPS" is like "run
// STEPS" for forward and backward passes alone, of a copy of the model. `variable` returns the
// environment.
Result<void> run_torch_worker(const TorchWorkerOptions& options,
                              const std::function<const char*(const char*)>& variable);

}  // namespace tally::bench::train
