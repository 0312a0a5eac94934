#include "server/node/jobs.h"

#include <algorithm>
#include <utility>

namespace tally::server {

JobHistory::Standing JobHistory::ask(NodeId worker, std::uint64_t sequence) {
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

void JobHistory::finish(NodeId worker, std::uint64_t sequence, const Answer& answer) {
  const MutexLock lock(mutex_);
  const auto jobs = workers_.find(worker);
  if (jobs == workers_.end()) return;
  if (const auto job = jobs->second.known.find(sequence); job != jobs->second.known.end())
    job->second = answer;
}

void JobHistory::keep_only(const std::vector<WorkerInfo>& workers) {
  const MutexLock lock(mutex_);
  std::erase_if(workers_, [&](const auto& entry) {
    return std::none_of(workers.begin(), workers.end(),
                        [&](const WorkerInfo& worker) { return worker.id == entry.first; });
  });
}

JobThread::~JobThread() { end(); }

bool JobThread::run(std::function<void()> job) {
  const MutexLock lock(mutex_);
  if (ended_ || jobs_.size() >= kMaxJobs) return false;
  jobs_.push_back(std::move(job));
  if (!thread_.joinable())
    thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  changed_.notify_one();
  return true;
}

void JobThread::end() {
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

void JobThread::loop(const std::stop_token& stop) {
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
