#pragma once
#include <atomic>

#include "base/check.h"
#include "base/clock.h"

namespace tally::sim {

// Time that passes only when a simulation says so, from 0. Threads: safe.
class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(now_.load(std::memory_order_acquire)); }

  void advance_to(TimePoint when) {
    TALLY_CHECK(when >= now());
    now_.store(when.count(), std::memory_order_release);
  }

 private:
  std::atomic<TimePoint::rep> now_{0};
};

}  // namespace tally::sim
