#pragma once
#include "tally/deadline.h"

namespace tally {

// The source of time: the steady clock or a simulation. Threads: safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  Deadline after(Duration timeout) const;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override;
};

// The steady clock's time.
TimePoint steady_now();

// `timeout` after `now`, without overflow.
Deadline deadline_after(TimePoint now, Duration timeout);

}  // namespace tally
