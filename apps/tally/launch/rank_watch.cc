#include "apps/tally/launch/rank_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/tally/launch/job_console.h"

namespace tally::launch {

using group::CoordinatorEvent;
using group::EventKind;

LaunchHooks RankWatch::hooks() {
  return {.before_start = [this](const JobStart& start,
                                 JobConsole& console) { return before_start(start, console); },
          .rank_failed = [this](Rank rank, const std::string& how) { rank_failed(rank, how); },
          .silent_ranks = [this] { return silent_ranks(); },
          .stopping = [this] { quiet(); },
          .job_over = [this] { coordinator_.reset(); }};
}

Result<Variables> RankWatch::before_start(const JobStart& start, JobConsole& console) {
  {
    MutexLock lock(mutex_);
    ending_ = false;
    failed_.clear();
    silent_.clear();
  }
  if (coordinator_) {
    coordinator_->begin_generation(start.generation, start.size);
  } else {
    const group::CoordinatorOptions options{
        .job = start.job,
        .size = start.size,
        .generation = start.generation,
        .listen = {.host = start.own_address, .port = 0},
        .secret = start.secret,
        .state_file = {},
        .heartbeat = options_.heartbeat,
        .lost_after = options_.lost_after,
        .stall_warning = options_.stall_warning,
    };
    TALLY_TRY(coordinator_,
              group::Coordinator::start(options, [this, &console](const CoordinatorEvent& event) {
                note_silence(event);
                if (worth_saying(event)) console.say(event.sentence);
              }));
    if (verbose_)
      console.say(fmt::format("the coordinator listens at {}; tally status {}",
                              to_string(coordinator_->address()), coordinator_->local_name()));
  }
  const double heartbeat = std::chrono::duration<double>(options_.heartbeat).count();
  return Variables{{"TALLY_COORDINATOR", to_string(coordinator_->address())},
                   {"TALLY_HEARTBEAT", fmt::format("{}", heartbeat)}};
}

void RankWatch::rank_failed(Rank rank, const std::string& how) {
  {
    MutexLock lock(mutex_);
    failed_.insert(rank);
  }
  if (coordinator_) coordinator_->process_ended(rank, how);
}

void RankWatch::note_silence(const CoordinatorEvent& event) {
  if (event.kind != EventKind::kLost || event.silence == Duration::zero()) return;
  MutexLock lock(mutex_);
  for (const Rank rank : event.ranks) silent_.push_back({.rank = rank, .silence = event.silence});
}

std::vector<SilentRank> RankWatch::silent_ranks() const {
  MutexLock lock(mutex_);
  return silent_;
}

void RankWatch::quiet() {
  MutexLock lock(mutex_);
  ending_ = true;
}

// The launcher reports the ends of processes.
bool RankWatch::worth_saying(const CoordinatorEvent& event) const {
  if (verbose_) return true;
  switch (event.kind) {
    case EventKind::kJoined:
    case EventKind::kLeft:
      return false;
    case EventKind::kRefused:
    case EventKind::kMismatch:
      return true;
    case EventKind::kLost:
    case EventKind::kUnreachable:
    case EventKind::kRecovered:
    case EventKind::kStalled:
      break;
  }
  MutexLock lock(mutex_);
  const bool known = std::all_of(
      event.ranks.begin(), event.ranks.end(),
      [this](Rank rank) TALLY_NO_THREAD_SAFETY_ANALYSIS { return failed_.contains(rank); });
  return !ending_ && !(event.kind == EventKind::kLost && known);
}

}  // namespace tally::launch
