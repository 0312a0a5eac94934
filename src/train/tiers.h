#pragma once
#include <memory>
#include <vector>

#include "tally/communicator.h"

namespace tally::train {

// How the ranks of a job lie on hosts. Ranks of one host share memory and are its neighbours; the
// ranks with the same number on all hosts are a lane, over which that number's part of everything
// travels. Where hosts have unequal numbers of ranks, or share no memory, every rank counts as a
// host of its own.
struct Tiers {
  std::vector<Rank> neighbours;  // ranks of the world on this host, this one included, in order
  int local = 0;                 // this rank's number among them
  int hosts = 1;
  int host = 0;            // this host's number, by its lowest rank
  std::vector<Rank> lane;  // ranks of the world on this lane, by host
  // This lane on all hosts, twice, for operations that do not wait for each other; null on a single
  // host.
  std::unique_ptr<Communicator> sums;
  std::unique_ptr<Communicator> values;

  int locals() const { return static_cast<int>(neighbours.size()); }
};

// What becomes of ranks that are all on one host.
enum class SingleHost {
  kTogether,
  kApart,  // every rank counts as a host of its own
};

// Called by all ranks.
Result<Tiers> find_tiers(Communicator& world, SingleHost single_host, Deadline by);

}  // namespace tally::train
