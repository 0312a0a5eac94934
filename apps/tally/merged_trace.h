#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "group/report.h"

namespace tally::app {

// One operation of one rank, on the time axis of the coordinator.
struct TracedOperation {
  Rank rank = 0;
  std::string communicator;
  OperationRecord record;  // its times are on the common axis
};

// The operations of all ranks in the order in which they began.
std::vector<TracedOperation> merge(const std::vector<group::Trace>& traces);

// One line per operation: when, which rank, what, for how long. Of each rank's, the last `most`.
std::string trace_listing(const std::vector<TracedOperation>& operations, std::size_t most);

// As chrome://tracing and ui.perfetto.dev read it: one process per rank, one thread per
// communicator, one complete event per operation. Those that still run last until the latest moment
// that is known.
nlohmann::ordered_json chrome_trace(const std::vector<TracedOperation>& operations);

}  // namespace tally::app
