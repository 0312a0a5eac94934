#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "tally/error.h"

namespace tally::bench::train {

struct TorchWorkerOptions {
  std::string folder;     // contains the pipes
  std::string problem;    // folder of write_problem()
  std::string contender;  // "tally" joins the job of the environment; otherwise a plain loop
  int parts = 1;          // of a plain loop
  int threads = 1;
  std::size_t bucket_bytes = 0;
  bool in_place = false;
  std::string plan = {};
};

// A worker in C++: serves the commands of its pipe until that closes; see ddp_worker.py for the
// protocol. `variable` returns the environment.
Result<void> run_torch_worker(const TorchWorkerOptions& options,
                              const std::function<const char*(const char*)>& variable);

}  // namespace tally::bench::train
