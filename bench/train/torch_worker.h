#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "tally/error.h"

namespace tally::bench::train {

struct TorchWorkerOptions {
  std::string folder;     // of the pipes
  std::string problem;    // as write_problem() left it
  std::string contender;  // "tally": joins the job of the environment; else a plain loop
  int parts = 1;          // of a plain loop
  int threads = 1;
  std::size_t bucket_bytes = 0;
  std::string plan = {};
};

// A worker of the contenders in C++: serves the commands of its pipe until that closes; the
// protocol is told in ddp_worker.py. `variable` gives the environment.
Result<void> run_torch_worker(const TorchWorkerOptions& options,
                              const std::function<const char*(const char*)>& variable);

}  // namespace tally::bench::train
