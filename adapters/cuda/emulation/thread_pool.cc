#include "adapters/cuda/emulation/thread_pool.h"

#include <utility>

namespace tally::cuda::emulation {

ThreadPool::~ThreadPool() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    for (Member& member : members_) member.changed.notify_one();
  }
  for (Member& member : members_) member.thread.join();
}

void ThreadPool::run(std::function<void()> task) {
  const MutexLock lock(mutex_);
  if (idle_.empty()) {
    Member& member = members_.emplace_back();
    member.task = std::move(task);
    member.thread = std::jthread([this, &member] { work(member); });
    return;
  }
  Member& member = *idle_.back();
  idle_.pop_back();
  member.task = std::move(task);
  member.changed.notify_one();
}

void ThreadPool::work(Member& member) TALLY_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.lock();
  for (;;) {
    while (!member.task && !ends_) member.changed.wait(mutex_);
    if (!member.task) break;
    const std::function<void()> task = std::exchange(member.task, nullptr);
    mutex_.unlock();
    task();
    mutex_.lock();
    idle_.push_back(&member);
  }
  mutex_.unlock();
}

ThreadPool& thread_pool() {
  static ThreadPool pool;
  return pool;
}

}  // namespace tally::cuda::emulation
