#pragma once
#include <memory>
#include <vector>

#include "collective/group_job.h"
#include "tally/communicator.h"
#include "tally/job.h"

namespace tally::mpi {

// The placement of all ranks, which they told each other.
struct Hosts {
  // For each rank, the lowest rank on the same host. Ranks of one host share memory.
  std::vector<Rank> first_of;
  // The ranks of this machine, including those that host_label keeps apart, and the cores that they
  // may use together: a launcher may bind each rank to its own.
  int on_this_machine = 1;
  int cores = 1;

  // The number of ranks on the host of `rank`, and how many of them come before it.
  int size_at(Rank rank) const;
  int index_at(Rank rank) const;
  bool one_host() const;
  bool all_alone() const;
};

// Called by all ranks of `all`.
Result<Hosts> find_hosts(Communicator& all, const std::string& host_label, Deadline by);

// Joins the ranks of this host to a job of engine=tally over shared memory. All ranks of `host`
// call it; the first one tells the others over `host` a port of the loopback interface and a
// secret. It may fail on some ranks only, so the caller agrees with the others before using the
// job. The job does not report to the coordinator; the caller does.
Result<std::unique_ptr<collective::MemberJob>> join_inside(Communicator& host,
                                                           const JobOptions& options, Deadline by);

}  // namespace tally::mpi
