#pragma once
#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "apps/tally/launch/job_console.h"
#include "apps/tally/launch/launcher.h"
#include "base/mutex.h"
#include "group/coordinator.h"

namespace tally::launch {

// A rank that counts as lost because of its silence, although its process may exist.
struct SilentRank {
  Rank rank = 0;
  Duration silence{};
};

// The parts of a job beside its ranks: a coordinator inside the launcher, which receives the
// heartbeats of the ranks and whose findings go to the console, and the parameter servers. Threads:
// called on the launcher's thread; events come from other threads.
class RankWatch final {
 public:
  RankWatch(const LaunchOptions& options, JobConsole& console)
      : options_(options), console_(console) {}

  // Whether a job with these options has a coordinator or servers.
  bool needed() const { return options_.watch.enabled || options_.servers; }
  // Called before the ranks of a start or restart are started; returns variables for all of them.
  Result<Variables> begin(const JobStart& start);
  // `how` as in "was killed by signal 9 (SIGKILL)".
  void rank_failed(Rank rank, const std::string& how);
  // Returns the ranks of this start that were lost by silence so far, in order.
  std::vector<SilentRank> silent_ranks() const;
  // Returns the number of ranks that have joined since this start.
  std::size_t joined() const;
  // Suppresses events of ranks that are being ended.
  void quiet();
  // Called when all ranks of this start have ended, before the remaining descendants are killed.
  void end_servers();

 private:
  Result<void> begin_coordinator(const JobStart& start);
  Result<void> begin_servers(const JobStart& start);
  void note(const group::CoordinatorEvent& event);
  bool worth_saying(const group::CoordinatorEvent& event) const;

  const LaunchOptions& options_;
  JobConsole& console_;
  mutable Mutex mutex_;
  bool ending_ TALLY_GUARDED_BY(mutex_) = false;
  std::set<Rank> failed_ TALLY_GUARDED_BY(mutex_);  // reported by the launcher
  std::vector<SilentRank> silent_ TALLY_GUARDED_BY(mutex_);
  std::set<Rank> joined_ TALLY_GUARDED_BY(mutex_);
  std::atomic<bool> servers_end_{false};
  // Last: their threads use the above.
  std::unique_ptr<process::ServerProcesses> servers_;
  std::unique_ptr<group::Coordinator> coordinator_;
};

}  // namespace tally::launch
