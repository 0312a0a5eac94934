#pragma once
#include <chrono>
#include <memory>
#include <set>
#include <vector>

#include "apps/tally/launch/launch_options.h"
#include "base/mutex.h"
#include "group/coordinator.h"

namespace tally::launch {

// Watches the ranks: a coordinator inside the launcher receives their heartbeats, and its findings
// go to the console. Threads: hooks are called on the launcher's thread, events of the coordinator
// come from its own.
class RankWatch final {
 public:
  explicit RankWatch(const WatchOptions& options, bool verbose)
      : options_(options), verbose_(verbose) {}

  // The hooks are for a launch that ends before this object does.
  LaunchHooks hooks();

 private:
  Result<Variables> before_start(const JobStart& start, JobConsole& console);
  void rank_failed(Rank rank, const std::string& how);
  std::vector<SilentRank> silent_ranks() const;
  void note_silence(const group::CoordinatorEvent& event);
  // Suppresses events of ranks that are being ended.
  void quiet();
  bool worth_saying(const group::CoordinatorEvent& event) const;

  const WatchOptions options_;
  const bool verbose_;
  mutable Mutex mutex_;
  bool ending_ TALLY_GUARDED_BY(mutex_) = false;
  std::set<Rank> failed_ TALLY_GUARDED_BY(mutex_);  // reported by the launcher
  std::vector<SilentRank> silent_ TALLY_GUARDED_BY(mutex_);
  std::unique_ptr<group::Coordinator> coordinator_;  // last: its thread uses the above
};

}  // namespace tally::launch
