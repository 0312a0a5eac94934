#pragma once
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/mutex.h"

namespace tally::server {

// Tasks for a thread that sleeps in poll() or epoll_wait(), where an eventfd wakes it. Threads:
// post() and wake() from any; the other calls from that thread.
class TaskQueue final {
 public:
  // False: the system has no descriptor left, see errno.
  bool open() const { return event_.open(); }
  // Readable from wake() to calm().
  int descriptor() const { return event_.descriptor(); }

  void post(std::function<void()> task) {
    {
      const MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake();
  }
  void wake() {
    const std::uint64_t one = 1;
    // A full counter wakes as well.
    [[maybe_unused]] const ssize_t written = ::write(descriptor(), &one, sizeof(one));
  }
  void calm() {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t read = ::read(descriptor(), &ignored, sizeof(ignored));
  }
  // Runs the posted tasks; false if there were none.
  bool run() {
    std::vector<std::function<void()>> tasks;
    {
      const MutexLock lock(mutex_);
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
    return !tasks.empty();
  }

 private:
  const Descriptor event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
