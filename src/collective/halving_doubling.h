#pragma once
#include "collective/layout.h"
#include "collective/schedule.h"

namespace tally::collective {

// All-reduce by recursive halving and doubling (Rabenseifner 2004). With N a power of two and M
// bytes, each rank: 2 log2 N steps, as many messages, 2(N-1)/N of M where N divides the count.
// Otherwise, with P the largest power of two below N, N-P ranks send their whole vector to a
// neighbour, stay idle, and receive the result: two more messages of M bytes.
Schedule halving_doubling_allreduce(const Vector& vector, Rank rank, int ranks);

}  // namespace tally::collective
