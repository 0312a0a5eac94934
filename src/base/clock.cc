#include "base/clock.h"

namespace tally {

TimePoint steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

TimePoint SteadyClock::now() const { return steady_now(); }

Deadline deadline_after(TimePoint now, Duration timeout) {
  if (timeout >= TimePoint::max() - now) return Deadline::never();
  return Deadline::at(now + timeout);
}

Deadline Clock::after(Duration timeout) const { return deadline_after(now(), timeout); }

Deadline Deadline::after(Duration timeout) { return SteadyClock().after(timeout); }

}  // namespace tally
