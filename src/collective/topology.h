#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "collective/schedule.h"
#include "tally/error.h"

namespace tally::collective {

// The distribution of ranks over hosts, as one rank sees it. Ranks of one host are neighbours. The
// ranks with the same local number on all hosts form a lane, so there are as many lanes as the
// smallest host has ranks.
struct Topology {
  std::vector<Rank> neighbours;  // ranks on this host, this one included, ascending
  int local = 0;                 // index of this rank in `neighbours`
  int hosts = 1;
  int host = 0;  // hosts are numbered by their lowest rank
  int lanes = 1;
  std::vector<Rank> lane;  // ranks on this lane, by host; empty if this rank has no lane
  bool is_even = true;     // all hosts have the same number of ranks

  int locals() const { return static_cast<int>(neighbours.size()); }
};

// `host_of` identifies the host of each rank by any number.
Topology topology_of(std::span<const int> host_of, Rank rank);

// `count` elements cut into one part per lane; by neighbour, empty for those that have no lane.
std::vector<Part> lane_parts(const Topology& topology, std::size_t count);

}  // namespace tally::collective
