#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::app {

// How often something happens: every so many steps or epochs. One of them is not 0; both 0: never.
struct Interval {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// "500", "500 steps", "2 epochs", "1epoch"; "never". kInvalid for anything else.
Result<Interval> parse_interval(std::string_view text);
std::string to_string(const Interval& interval);

// How far a training is: what is done.
struct Moment {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;
};

// Whether the step from `before` to `after` is one after which it happens.
bool is_due(const Interval& interval, const Moment& before, const Moment& after);

}  // namespace tally::app
