#include "server/node/background.h"

#include <utility>

namespace tally::server {

Background::~Background() { end(); }

bool Background::run(std::function<void()> job) {
  const MutexLock lock(mutex_);
  if (ended_ || jobs_.size() >= kMaxJobs) return false;
  jobs_.push_back(std::move(job));
  if (!thread_.joinable())
    thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  changed_.notify_one();
  return true;
}

void Background::end() {
  std::jthread thread;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    jobs_.clear();
    thread = std::move(thread_);
    thread.request_stop();
    changed_.notify_one();
  }
}

void Background::loop(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> job;
    {
      const MutexLock lock(mutex_);
      while (jobs_.empty() && !stop.stop_requested()) changed_.wait(mutex_);
      if (stop.stop_requested()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace tally::server
