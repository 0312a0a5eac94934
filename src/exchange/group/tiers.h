#pragma once
#include <memory>
#include <vector>

#include "tally/communicator.h"

namespace tally::exchange {

// The distribution of a job's ranks over hosts. Ranks of one host share memory and are neighbours.
// The ranks with the same local number on all hosts form a lane, which carries that number's part
// of every bucket. If hosts have unequal numbers of ranks, or share no memory, every rank counts as
// a host of its own.
struct Tiers {
  std::vector<Rank> neighbours;  // ranks on this host, this one included, ascending
  int local = 0;                 // index of this rank in `neighbours`
  int hosts = 1;
  int host = 0;            // hosts are numbered by their lowest rank
  std::vector<Rank> lane;  // ranks on this lane, by host
  // Two communicators of this lane, for operations that do not wait for each other; null on a
  // single host.
  std::unique_ptr<Communicator> sums;
  std::unique_ptr<Communicator> values;

  int locals() const { return static_cast<int>(neighbours.size()); }
};

// How ranks are treated if all of them are on one host.
enum class SingleHost {
  kTogether,
  kApart,  // every rank counts as a host of its own
};

// Called by all ranks.
Result<Tiers> find_tiers(Communicator& world, SingleHost single_host, Deadline by);

}  // namespace tally::exchange
