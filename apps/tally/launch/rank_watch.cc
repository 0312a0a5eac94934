#include "apps/tally/launch/rank_watch.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace tally::launch {

using group::CoordinatorEvent;
using group::EventKind;

namespace {

constexpr std::chrono::milliseconds kLeastSilence = std::chrono::seconds(5);

}  // namespace

std::chrono::milliseconds silence_limit_of(Duration lost_after) {
  if (lost_after <= Duration::zero()) return {};
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(lost_after), kLeastSilence);
}

Result<Variables> RankWatch::begin(const JobStart& start) {
  Variables variables;
  if (options_.watch.enabled) {
    TALLY_TRY(begin_coordinator(start));
    const double heartbeat = std::chrono::duration<double>(options_.watch.heartbeat).count();
    variables = {{"TALLY_COORDINATOR", to_string(coordinator_->address())},
                 {"TALLY_HEARTBEAT", fmt::format("{}", heartbeat)}};
  }
  if (options_.servers) {
    TALLY_TRY(begin_servers(start));
    variables.emplace_back("TALLY_DIRECTORY", servers_->directory());
  }
  return variables;
}

Result<void> RankWatch::begin_coordinator(const JobStart& start) {
  {
    MutexLock lock(mutex_);
    ending_ = false;
    failed_.clear();
    silent_.clear();
    joined_.clear();
  }
  if (coordinator_) {
    coordinator_->begin_generation(start.generation, options_.size());
    return {};
  }
  const group::CoordinatorOptions options{
      .job = options_.job,
      .size = options_.size(),
      .generation = start.generation,
      .listen = {.host = start.own_address, .port = 0},
      .secret = start.secret,
      .state_file = {},
      .heartbeat = options_.watch.heartbeat,
      .lost_after = options_.watch.lost_after,
      .stall_warning = options_.watch.stall_warning,
  };
  TALLY_TRY(coordinator_, group::Coordinator::start(options, [this](const CoordinatorEvent& event) {
              note(event);
              if (worth_saying(event)) console_.say(event.sentence);
            }));
  if (options_.verbose)
    console_.say(fmt::format("the coordinator listens at {}; tally status {}",
                             to_string(coordinator_->address()), coordinator_->local_name()));
  return {};
}

Result<void> RankWatch::begin_servers(const JobStart& start) {
  servers_.reset();
  servers_end_ = false;
  process::ServerProcessesOptions servers = *options_.servers;
  servers.host = start.own_address;
  servers.secret = start.secret;
  servers.silence_limit = silence_limit_of(options_.watch.lost_after);
  TALLY_TRY(servers_, process::ServerProcesses::start(servers, [this](const std::string& event) {
              if (!servers_end_ && options_.is_news(event)) console_.say(event);
            }));
  return {};
}

void RankWatch::end_servers() {
  servers_end_ = true;
  servers_.reset();
}

void RankWatch::rank_failed(Rank rank, const std::string& how) {
  {
    MutexLock lock(mutex_);
    failed_.insert(rank);
  }
  if (coordinator_) coordinator_->process_ended(rank, how);
}

void RankWatch::note(const CoordinatorEvent& event) {
  if (event.kind == EventKind::kJoined) {
    MutexLock lock(mutex_);
    joined_.insert(event.ranks.begin(), event.ranks.end());
  }
  if (event.kind != EventKind::kLost || event.silence == Duration::zero()) return;
  MutexLock lock(mutex_);
  for (const Rank rank : event.ranks) silent_.push_back({.rank = rank, .silence = event.silence});
}

std::vector<SilentRank> RankWatch::silent_ranks() const {
  MutexLock lock(mutex_);
  return silent_;
}

std::size_t RankWatch::joined() const {
  MutexLock lock(mutex_);
  return joined_.size();
}

void RankWatch::quiet() {
  MutexLock lock(mutex_);
  ending_ = true;
}

// The launcher reports the ends of processes.
bool RankWatch::worth_saying(const CoordinatorEvent& event) const {
  const EventKind kind = event.kind;
  if (options_.verbose || kind == EventKind::kRefused || kind == EventKind::kMismatch) return true;
  if (kind == EventKind::kJoined || kind == EventKind::kLeft) return false;
  MutexLock lock(mutex_);
  const bool known = std::all_of(
      event.ranks.begin(), event.ranks.end(),
      [this](Rank rank) TALLY_NO_THREAD_SAFETY_ANALYSIS { return failed_.contains(rank); });
  return !ending_ && !(kind == EventKind::kLost && known);
}

}  // namespace tally::launch
