#pragma once
#include "collective/layout.h"
#include "collective/schedule.h"

namespace tally::collective {

// Bandwidth-optimal collectives in which each rank sends to the next one and receives from the one
// before (Patarasuk and Yuan 2009). With N ranks and M bytes, each rank:
//
//   all-reduce      2(N-1) steps, as many messages, 2(N-1)/N of M where N divides the count
//   reduce-scatter  N-1 steps and one for the division, N-1 messages, all parts but its own
//   all-gather      N-1 steps, N-1 messages, all parts but its right neighbour's
//
// Every part is summed along one way round the ring, so the order of addition is fixed.

Schedule ring_allreduce(const Vector& vector, Rank rank, int ranks);

// How chunks are cut, and how many segments of each go round at a time.
struct RingSegments {
  std::size_t bytes = std::size_t{256} << 10;
  int at_once = 2;
};

// The same sums in the same order, and as many bytes. Messages are of at most `cut.bytes`, and steps
// overlap. Faster where chunks do not fit into the processor's cache.
Schedule segmented_ring_allreduce(const Vector& vector, Rank rank, int ranks,
                                  const RingSegments& cut);

// kInput holds all parts, kOutput this rank's. Scratch: two of the largest parts.
Schedule ring_reduce_scatter(const Parts& parts, Rank rank);

// kInput holds this rank's part, kOutput all.
Schedule ring_allgather(const Parts& parts, Rank rank);

}  // namespace tally::collective
