#include "server/client/progress.h"

#include <algorithm>

#include "base/clock.h"
#include "base/cpu.h"

namespace tally::server {
namespace {

// About 20 microseconds, where somebody else can run meanwhile.
constexpr int kLooks = 500;

}  // namespace

void Progress::note() {
  noted_.store(true);
  if (!burst_.load()) publish();
}

void Progress::begin_burst() {
  if (!burst_.load(std::memory_order_relaxed)) burst_.store(true);
}

void Progress::publish() {
  burst_.store(false);
  if (!noted_.exchange(false)) return;
  changes_.fetch_add(1);
  if (sleepers_.load() == 0) return;
  // Whoever is about to sleep has the mutex until it does.
  { const MutexLock lock(mutex_); }
  changed_.notify_all();
}

bool Progress::wait(const std::function<bool()>& done, Deadline by) {
  while (true) {
    const std::uint64_t seen = changes_.load();
    if (done()) return true;
    if (by.passed(SteadyClock().now())) return false;
    wait_for_change(seen, by);
  }
}

void Progress::wait_for_change(std::uint64_t seen, Deadline by) {
  static const bool alone = usable_cores() < 2;
  for (int i = 0; i < kLooks && !alone; ++i) {
    if (changes_.load() != seen) return;
    spin_pause();
  }
  mutex_.lock();
  sleepers_.fetch_add(1);
  while (changes_.load() == seen && !by.passed(SteadyClock().now()))
    changed_.wait_for(
        mutex_, std::min<Duration>(by.remaining(SteadyClock().now()), std::chrono::seconds(1)));
  sleepers_.fetch_sub(1);
  mutex_.unlock();
}

}  // namespace tally::server
