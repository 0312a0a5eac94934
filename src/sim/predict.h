#pragma once
#include <cstddef>

#include "sim/model.h"
#include "tally/communicator.h"
#include "tally/error.h"

namespace tally::sim {

struct Prediction {
  Duration time{};                 // until the last rank is done
  std::size_t steps = 0;           // exchanges of the rank that has most
  std::size_t messages = 0;        // of all ranks together
  std::size_t bytes_per_rank = 0;  // sent, by the rank that sends most
};

// How long an all-reduce of `bytes` takes, from the schedules of all ranks, message by message: the
// sender's link is busy for n / bandwidth, the first byte arrives after the latency, the receiver's
// link is busy as long again; whoever comes later waits. Local copies take no time.
// kInvalid as trace_allreduce(). Time and memory grow with the number of messages: about a second
// and 100 MB for two million.
Result<Prediction> predict(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model);

}  // namespace tally::sim
