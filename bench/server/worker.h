#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "bench/server/cases.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::bench::servers {

struct WorkerOptions {
  server::ClientOptions client;
  int workers = 1;
  std::string only;  // cases whose name contains this; the same for all workers
  std::chrono::milliseconds slice = std::chrono::milliseconds(500);
};

// One worker: compares the result of its pushes with the expected values, then measures every case
// for a slice, together with the others. kMismatch if contents are wrong. `tell` receives each
// figure.
Result<void> run_worker(const WorkerOptions& options, const std::function<void(Figure)>& tell);

}  // namespace tally::bench::servers
