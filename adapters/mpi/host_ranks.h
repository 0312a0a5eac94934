#pragma once
#include <memory>
#include <vector>

#include "collective/group_job.h"
#include "tally/communicator.h"
#include "tally/job.h"

namespace tally::mpi {

// Which ranks are where, as all of them told each other.
struct Hosts {
  // The lowest rank that shares a host, and with it memory, with each rank.
  std::vector<Rank> first_of;
  // Ranks of this machine, also those that host_label keeps apart, and the cores that they have
  // together: a launcher may bind each to its own.
  int on_this_machine = 1;
  int cores = 1;

  // Ranks of `rank`'s host, and how many of them come before it.
  int size_at(Rank rank) const;
  int index_at(Rank rank) const;
  bool one_host() const;
  bool all_alone() const;
};

// Called by all ranks of `all`.
Result<Hosts> find_hosts(Communicator& all, const std::string& host_label, Deadline by);

// The ranks of this host as a job of ours over shared memory. `host` has the same ranks, and tells
// them the port of the loopback interface and the secret that they meet by. Called by all ranks of
// `host`. An error on some ranks only is possible: agree before using it. Whoever calls it reports
// to the coordinator: it does not.
Result<std::unique_ptr<collective::MemberJob>> join_inside(Communicator& host,
                                                           const JobOptions& options, Deadline by);

}  // namespace tally::mpi
