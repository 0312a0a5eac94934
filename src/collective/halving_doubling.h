#pragma once
#include "collective/layout.h"
#include "collective/schedule.h"

namespace tally::collective {

// All-reduce by recursive halving and doubling (Rabenseifner 2004). With N a power of two and M
// bytes, each rank: 2 log2 N steps, as many messages, 2(N-1)/N of M where N divides the count.
// Otherwise, with P the largest power of two below N, N-P ranks hand their whole vector to a
// neighbour, sit out, and are handed the result: two messages of M bytes more.
Schedule halving_doubling_allreduce(const Vector& vector, Rank rank, int ranks);

}  // namespace tally::collective
