#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/protocol/message.h"
#include "server/protocol/view.h"

namespace tally::server {

// The snapshots and restores that workers have requested, by sequence, so that each runs once,
// however often it is sent. Threads: safe.
class JobHistory final {
 public:
  // Jobs that are remembered per worker.
  static constexpr std::size_t kMaxJobs = 64;

  struct Answer {
    Outcome outcome = Outcome::kDone;
    std::vector<std::byte> payload;
  };
  struct Standing {
    bool is_new = false;           // the caller runs it
    std::optional<Answer> answer;  // of a finished job
  };
  Standing ask(NodeId worker, std::uint64_t sequence) {
    const MutexLock lock(mutex_);
    Jobs& jobs = workers_[worker];
    if (const auto known = jobs.known.find(sequence); known != jobs.known.end())
      return {.answer = known->second};
    // The job is too old to be remembered, and was answered.
    if (sequence <= jobs.newest) return {};
    jobs.newest = sequence;
    jobs.known.emplace(sequence, std::nullopt);
    if (jobs.known.size() > kMaxJobs) jobs.known.erase(jobs.known.begin());
    return {.is_new = true, .answer = {}};
  }

  void finish(NodeId worker, std::uint64_t sequence, const Answer& answer) {
    const MutexLock lock(mutex_);
    const auto jobs = workers_.find(worker);
    if (jobs == workers_.end()) return;
    if (const auto job = jobs->second.known.find(sequence); job != jobs->second.known.end())
      job->second = answer;
  }

  // Forgets the jobs of other workers.
  void keep_only(const std::vector<WorkerInfo>& workers) {
    const MutexLock lock(mutex_);
    std::erase_if(workers_, [&](const auto& entry) {
      return std::none_of(workers.begin(), workers.end(),
                          [&](const WorkerInfo& worker) { return worker.id == entry.first; });
    });
  }

 private:
  struct Jobs {
    std::uint64_t newest = 0;
    std::map<std::uint64_t, std::optional<Answer>> known;  // empty: running
  };
  Mutex mutex_;
  std::map<NodeId, Jobs> workers_ TALLY_GUARDED_BY(mutex_);
};

// A thread for work that would delay messages: reading and writing files, one job after the other.
// Threads: safe. The destructor waits for the running job and drops the queued ones.
class JobThread final {
 public:
  static constexpr std::size_t kMaxJobs = 16;

  // False if kMaxJobs are queued. The first job starts the thread.
  bool run(std::function<void()> job) {
    const MutexLock lock(mutex_);
    if (jobs_.size() >= kMaxJobs) return false;
    jobs_.push_back(std::move(job));
    if (!thread_.joinable())
      thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
    changed_.notify_one();
    return true;
  }

 private:
  void loop(const std::stop_token& stop) {
    for (;;) {
      std::function<void()> job;
      {
        const MutexLock lock(mutex_);
        changed_.wait(mutex_, stop, [this]() TALLY_REQUIRES(mutex_) { return !jobs_.empty(); });
        if (stop.stop_requested()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> jobs_ TALLY_GUARDED_BY(mutex_);
  std::jthread thread_ TALLY_GUARDED_BY(mutex_);  // last: it uses the members above
};

}  // namespace tally::server
