#pragma once
#include "collective/layout.h"
#include "collective/schedule.h"

namespace tally::collective {

// Collectives along a binomial tree: in each of ceil(log2 N) rounds the ranks that have the data
// (or have yet to give theirs) double (or halve). Best for short vectors; whole vectors travel.
//
//   broadcast, reduce   N-1 messages of M bytes in all
//   all-reduce          a reduce to rank 0, then a broadcast from it: 2(N-1) messages
//
// Each rank has one step per message that it sends or receives; the root has one more, in which it
// copies or divides. A rank adds its children's sums in the order of their distance.

Schedule tree_allreduce(const Vector& vector, Rank rank, int ranks);

// From kInput at `root` to kOutput everywhere.
Schedule tree_broadcast(const Vector& vector, Rank root, Rank rank, int ranks);

// From kInput everywhere to kOutput at `root`. Other ranks have no output; those with children sum
// in kScratch.
Schedule tree_reduce(const Vector& vector, Rank root, Rank rank, int ranks);

}  // namespace tally::collective
