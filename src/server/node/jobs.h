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

// Snapshots and restores that workers have asked a server for, by sequence: what makes each happen
// once, however often it is sent. Threads: safe.
class JobHistory final {
 public:
  // Of each worker so many are remembered.
  static constexpr std::size_t kMaxJobs = 64;

  struct Answer {
    Outcome outcome = Outcome::kDone;
    std::vector<std::byte> payload;
  };
  struct Standing {
    bool is_new = false;           // now under way
    std::optional<Answer> answer;  // it is over
  };
  Standing ask(NodeId worker, std::uint64_t sequence);
  void finish(NodeId worker, std::uint64_t sequence, const Answer& answer);
  // Who is gone asks no more.
  void keep_only(const std::vector<WorkerInfo>& workers);

 private:
  struct Jobs {
    std::uint64_t newest = 0;
    std::map<std::uint64_t, std::optional<Answer>> known;  // none: under way
  };
  Mutex mutex_;
  std::map<NodeId, Jobs> workers_ TALLY_GUARDED_BY(mutex_);
};

// A thread that does what takes too long for those who serve messages: reading and writing files.
// One job after the other. Threads: safe. Its end waits for the job that is under way; those behind
// it are not begun.
class JobThread final {
 public:
  static constexpr std::size_t kMaxJobs = 16;

  JobThread() = default;
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // False: so many are waiting that it is not taken. The thread is made with the first job.
  bool run(std::function<void()> job);
  // No job is begun any more, and none is under way. To be called by an owner whose parts the jobs
  // use.
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
