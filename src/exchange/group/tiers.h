#pragma once
#include <memory>

#include "collective/topology.h"
#include "tally/communicator.h"

namespace tally::exchange {

// The distribution of a job's ranks over hosts whose ranks share memory. A lane carries its
// number's part of every bucket. If hosts have unequal numbers of ranks, or share no memory, every
// rank counts as a host of its own, so that every rank has a lane.
struct Tiers : collective::Topology {
  // Two communicators of this lane, for operations that do not wait for each other; null on a
  // single host.
  std::unique_ptr<Communicator> sums;
  std::unique_ptr<Communicator> values;
};

// Which ranks have one copy of the model together.
enum class Replicas {
  kPerHost,
  kPerHostIfSeveral,  // the ranks of a host, but on a single host every rank has its own
  kPerRank,           // every rank counts as a host of its own
};

// Called by all ranks.
Result<Tiers> find_tiers(Communicator& world, Replicas replicas, Deadline by);

}  // namespace tally::exchange
