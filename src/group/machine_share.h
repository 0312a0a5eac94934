#pragma once
#include "group/bodies.h"
#include "tally/error.h"

namespace tally::group {

// The ranks of a job on one machine, and the cores that they can use.
struct MachineShare {
  int ranks = 1;      // including ranks that are reached through a network
  int cores = 1;      // of these ranks together, limited by the quota of this container
  int own_cores = 1;  // of this rank alone: its launcher may have bound it
};

// The share of `rank`, which is this process.
MachineShare machine_share(const Welcome& welcome, Rank rank);

inline bool has_a_core_for_each_rank(const MachineShare& share) {
  return share.ranks <= share.cores;
}

// Whether a rank sends over TCP and TLS in a second thread: each rank of the machine must have two
// cores. `hosts` are those of the job; a rank that shares no memory is a host of its own. With two
// hosts a rank sends to the peer from which it receives, and the kernel locks a socket for one
// direction at a time.
bool has_a_core_for_sending(const MachineShare& share, int hosts);

}  // namespace tally::group
