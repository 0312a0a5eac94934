#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <stop_token>
#include <thread>

#include "base/mutex.h"

namespace tally::server {

// A thread that does what takes too long for those who serve messages: reading and writing files.
// One job after the other. Threads: safe. Its end waits for the job that is under way; those behind
// it are not begun.
class Background final {
 public:
  static constexpr std::size_t kMaxJobs = 16;

  Background() = default;
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

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
