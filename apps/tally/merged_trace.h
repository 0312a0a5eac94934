#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "group/report.h"

namespace tally::app {

// One operation of one rank, or one phase of its training, on the time axis of the coordinator.
struct TracedOperation {
  Rank rank = 0;
  std::string communicator;  // of a phase: "training"
  OperationRecord record;    // with times on the common axis; of a phase: the times alone
  std::string phase = {};    // its name; empty: this is an operation
};

// The operations and phases of all ranks in the order in which they began.
std::vector<TracedOperation> merge(const std::vector<group::Trace>& traces);

// Returns one line per operation with time, rank, name and duration, for the last `most` operations
// of each rank.
std::string trace_listing(const std::vector<TracedOperation>& operations, std::size_t most);

// Returns the format of chrome://tracing and ui.perfetto.dev: one process per rank, one thread per
// communicator and per phase, one complete event per operation. Operations in progress end at the
// latest known time.
nlohmann::ordered_json chrome_trace(const std::vector<TracedOperation>& operations);

}  // namespace tally::app
