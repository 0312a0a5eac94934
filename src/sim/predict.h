#pragma once
#include <cstddef>
#include <string>

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
// link is busy for the same time, and later messages wait. Local copies take no time. kInvalid for
// algorithms that send no messages, and for hosts that are not full. Time and memory grow with the
// number of messages: about a second and 100 MB for two million.
Result<Prediction> predict(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model);

struct Formula {
  std::string text;  // in the names below
  Duration time{};
};

// The time of an all-reduce by the alpha-beta model, with N ranks, M bytes, latency a, bandwidth B
// and g seconds to add a byte; P is the largest power of two up to N, h = ceil(log2 N). Hosts of L
// ranks, K of them, have latency a' and bandwidth B' inside.
//
//   ring               2(N-1)(a + M/(N B)) + (N-1)/N M g
//   halving-doubling   2 log2(P) a + 2(P-1)/P M/B + (P-1)/P M g, and 2(a + M/B) + M g if N is not P
//   tree               2h(a + M/B) + h M g
//   hierarchical       2(L-1)(a' + M/(L B')) + 2(K-1)(a + M/(N B)) + ((L-1)/L + (K-1)/N) M g
//
// Equal to predict() where all links are network links, parts are equal and N is a power of two;
// the ring for any N. For other N the tree's is an upper bound, and halving-doubling's leaves out
// that a vector handed over meets early messages at its receiver: a few per cent. Fast links inside
// hosts make the first three upper bounds. kInvalid as predict().
Result<Formula> formula(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model);

}  // namespace tally::sim
