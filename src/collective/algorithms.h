#pragma once
#include "collective/schedule.h"

namespace tally::collective {

// The algorithms that send messages, as functions from a rank to its Schedule. Each family has a
// file of its own name.

// Bandwidth-optimal collectives in which each rank sends to the next one and receives from the one
// before (Patarasuk and Yuan 2009). With N ranks and M bytes, each rank:
//
//   all-reduce      2(N-1) steps, as many messages, 2(N-1)/N of M where N divides the count
//   reduce-scatter  N-1 steps and one for the division, N-1 messages, all parts but its own
//   all-gather      N-1 steps, N-1 messages, all parts but its right neighbour's
//
// Every part is summed along one way round the ring, so the order of addition is fixed.

Schedule ring_allreduce(const Vector& vector, Rank rank, int ranks);

// How chunks are cut, and how many segments of each go round at a time: two where a second thread
// may send one segment while the caller combines another. All ranks must use the same values: a
// rank that runs fewer segments at a time could wait for a neighbour that waits for its next one.
struct RingSegments {
  std::size_t bytes = std::size_t{256} << 10;
  int at_once = 1;
};

// The same sums in the same order, and as many bytes. Messages have at most `cut.bytes`, and steps
// overlap. Faster where chunks do not fit into the processor's cache.
Schedule segmented_ring_allreduce(const Vector& vector, Rank rank, int ranks,
                                  const RingSegments& cut);

// kInput holds all parts, kOutput this rank's. Scratch: two of the largest parts.
Schedule ring_reduce_scatter(const Parts& parts, Rank rank);

// kInput holds this rank's part, kOutput all.
Schedule ring_allgather(const Parts& parts, Rank rank);

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

// All-reduce by recursive halving and doubling (Rabenseifner 2004). With N a power of two and M
// bytes, each rank: 2 log2 N steps, as many messages, 2(N-1)/N of M where N divides the count.
// Otherwise, with P the largest power of two below N, N-P ranks send their whole vector to a
// neighbour, stay idle, and receive the result: two more messages of M bytes.
Schedule halving_doubling_allreduce(const Vector& vector, Rank rank, int ranks);

// Gather and scatter with one message between the root and every other rank, all in one step. The
// root's link is the limit, as along any tree: all parts must pass it.

// kInput holds this rank's part; kOutput, at `root` only, all.
Schedule linear_gather(const Parts& parts, Rank root, Rank rank);

// kInput, at `root` only, holds all parts; kOutput this rank's.
Schedule linear_scatter(const Parts& parts, Rank root, Rank rank);

// All-to-all in N-1 steps of one send and one receive: in step i each rank sends to the rank i
// after it and receives from the rank i before it, so that no link carries two messages at once.
// `to_send` lays out kInput, `to_receive` kOutput, both by rank.
Schedule pairwise_all_to_all(const Parts& to_send, const Parts& to_receive, Rank rank);

// Dissemination barrier (Hensgen, Finkel, Manber 1988): ceil(log2 N) steps of one empty message
// sent and one received. No rank ends before every rank has begun.
Schedule dissemination_barrier(Rank rank, int ranks);

}  // namespace tally::collective
