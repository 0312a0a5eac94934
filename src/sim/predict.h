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

// The time of an all-reduce of `bytes`, from the schedules of all ranks, message by message: the
// sender's link is busy for n / bandwidth, the first byte arrives after the latency, the receiver's
// link is busy for the same time, and later messages wait. Local copies take no time. kInvalid as
// trace_allreduce(). Time and memory grow with the number of messages: about a second and 100 MB
// for two million.
Result<Prediction> predict(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model);

}  // namespace tally::sim
