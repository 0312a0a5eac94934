#pragma once
#include "base/clock.h"

namespace tally {

// Adds its own lifetime to `total`.
class Stopwatch {
 public:
  explicit Stopwatch(Duration& total) : total_(total), begin_(SteadyClock().now()) {}
  ~Stopwatch() { total_ += SteadyClock().now() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Duration& total_;
  const TimePoint begin_;
};

}  // namespace tally
