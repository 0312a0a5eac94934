#pragma once
#include <chrono>

namespace tally {

// Nanoseconds on the job's clock: the steady clock, or the virtual clock of a simulation.
using TimePoint = std::chrono::nanoseconds;
using Duration = std::chrono::nanoseconds;

// The time by which a blocking call must return.
class Deadline {
 public:
  // `timeout` from now on the steady clock.
  static Deadline after(Duration timeout);
  static constexpr Deadline never() { return Deadline(TimePoint::max()); }
  static constexpr Deadline at(TimePoint when) { return Deadline(when); }

  constexpr TimePoint when() const { return when_; }
  constexpr bool passed(TimePoint now) const { return now >= when_; }
  constexpr Duration remaining(TimePoint now) const {
    if (when_ == TimePoint::max()) return Duration::max();
    return when_ > now ? when_ - now : Duration::zero();
  }
  friend constexpr Deadline earlier(Deadline a, Deadline b) { return a.when_ < b.when_ ? a : b; }

 private:
  constexpr explicit Deadline(TimePoint when) : when_(when) {}
  TimePoint when_;
};

}  // namespace tally
