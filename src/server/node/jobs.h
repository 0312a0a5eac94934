#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <thread>
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
  Standing ask(NodeId worker, std::uint64_t sequence);
  void finish(NodeId worker, std::uint64_t sequence, const Answer& answer);
  // Forgets the jobs of other workers.
  void keep_only(const std::vector<WorkerInfo>& workers);

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

  JobThread() = default;
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // False if kMaxJobs are queued. The first job starts the thread.
  bool run(std::function<void()> job);
  // As the destructor, for an owner whose members the jobs use.
  void end();

 private:
  void loop(const std::stop_token& stop);

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> jobs_ TALLY_GUARDED_BY(mutex_);
  std::jthread thread_ TALLY_GUARDED_BY(mutex_);
  bool ended_ TALLY_GUARDED_BY(mutex_) = false;
};

}  // namespace tally::server
