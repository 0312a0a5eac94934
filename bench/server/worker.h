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
  std::string only;  // cases whose name has this; the same for all workers
  std::chrono::milliseconds slice = std::chrono::milliseconds(500);
};

// One worker: compares what the servers make of its pushes with what they must, then measures every
// case for a slice, together with the others. kMismatch if contents are wrong. `tell` hears each
// figure.
Result<void> run_worker(const WorkerOptions& options, const std::function<void(Figure)>& tell);

}  // namespace tally::bench::servers
