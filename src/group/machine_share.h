#pragma once
#include "group/bodies.h"
#include "tally/error.h"

namespace tally::group {

// The ranks of a job on one machine (ranks with one host name), and the cores that they can use.
struct MachineShare {
  int ranks = 1;      // including ranks that do not share memory with this one
  int cores = 1;      // of these ranks together, limited by the quota of this container
  int own_cores = 1;  // in the affinity mask of this rank: its launcher may have bound it
};

// The share of `rank`, which is this process.
MachineShare machine_share(const Welcome& welcome, Rank rank);

// Whether ranks may spin while they wait: with fewer cores they would delay each other.
inline bool has_a_core_for_each_rank(const MachineShare& share) {
  return share.ranks <= share.cores;
}

// Whether a rank sends over TCP and TLS in a second thread (net::SenderThread): each rank of the
// machine must have two cores, and the job more than two hosts. `hosts` counts the groups of ranks
// that share memory; a rank that shares none is a host of its own. With two hosts a rank sends to
// the peer from which it receives, and both threads would contend for the kernel's socket lock.
bool has_a_core_for_sending(const MachineShare& share, int hosts);

// Whether each rank of the job has two cores on its machine, by the affinity masks that all ranks
// know: the result is equal on all ranks.
bool all_ranks_have_two_cores(const Welcome& welcome);

}  // namespace tally::group
