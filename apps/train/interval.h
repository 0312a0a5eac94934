#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::app {

// An interval of steps or epochs. One of them is not 0; both 0: never.
struct Interval {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Parses "500", "500 steps", "2 epochs", "1epoch"; "never". kInvalid for any other text.
Result<Interval> parse_interval(std::string_view text);
std::string to_string(const Interval& interval);

// Progress of a training: completed steps and epochs.
struct Moment {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
};

// Whether an interval ends with the step from `before` to `after`.
bool is_due(const Interval& interval, const Moment& before, const Moment& after);

}  // namespace tally::app
