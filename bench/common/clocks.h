#pragma once
#include <ctime>

namespace tally::bench {

// Returns the time of a clock, such as CLOCK_THREAD_CPUTIME_ID, in seconds.
inline double seconds_on(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace tally::bench
