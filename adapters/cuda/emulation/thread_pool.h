#pragma once
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "base/mutex.h"

namespace tally::cuda::emulation {

// Runs each task at once on a thread of its own, because tasks wait for each other. Threads are
// kept for later tasks, with the fibers that they have made. The destructor waits for all tasks.
class ThreadPool final {
 public:
  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(std::function<void()> task);

 private:
  struct Member {
    std::function<void()> task;  // empty: the thread is idle
    ConditionVariable changed;
    std::jthread thread;
  };
  void work(Member& member);

  Mutex mutex_;
  bool ends_ TALLY_GUARDED_BY(mutex_) = false;
  std::list<Member> members_ TALLY_GUARDED_BY(mutex_);
  std::vector<Member*> idle_ TALLY_GUARDED_BY(mutex_);
};

// The threads of streams and of blocks.
ThreadPool& thread_pool();

}  // namespace tally::cuda::emulation
