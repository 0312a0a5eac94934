#pragma once
#include <cstdint>
#include <optional>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::sim {

// The faults of a simulation, given before it starts.

// The rank's process ends at a moment, or when it has sent `before_frame` frames and is about to
// send one more; whichever comes first. Frames that it had sent still arrive; then its peers learn
// of the loss.
struct Kill {
  Rank rank = kNoRank;
  std::optional<std::uint64_t> before_frame = std::nullopt;
  std::optional<TimePoint> at = std::nullopt;
};

// No frame passes between two ranks, in either direction, from `from` on; frames under way arrive
// after `until`.
struct Cut {
  Rank one = kNoRank;
  Rank other = kNoRank;
  TimePoint from{};
  TimePoint until = TimePoint::max();
};

// The rank does nothing from `from` to `until`, as after SIGSTOP. Its peers do not learn of it.
struct Stop {
  Rank rank = kNoRank;
  TimePoint from{};
  TimePoint until = TimePoint::max();
};

// Frame number `frame` from one rank to another arrives damaged; its receiver then ends the
// connection.
struct Corrupt {
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::uint32_t frame = 0;
};

// Frames sent from one rank to another between `since` and `until` take `extra` longer.
struct Delay {
  Rank from = kNoRank;
  Rank to = kNoRank;
  Duration extra{};
  TimePoint since{};
  TimePoint until = TimePoint::max();
};

}  // namespace tally::sim
