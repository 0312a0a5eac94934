#pragma once
#include <cstdint>
#include <optional>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::sim {

// What goes wrong in a simulation, written down before it starts.

// The rank's process ends at a moment, or when it has sent `before_frame` frames and is about to
// send one more; whichever comes first. What it had sent still arrives; then its peers hear of the
// loss.
struct Kill {
  Rank rank = kNoRank;
  std::optional<std::uint64_t> before_frame = std::nullopt;
  std::optional<TimePoint> at = std::nullopt;
};

// Nothing passes between two ranks, either way, from `from` on; what was on its way arrives after
// `until`.
struct Cut {
  Rank one = kNoRank;
  Rank other = kNoRank;
  TimePoint from{};
  TimePoint until = TimePoint::max();
};

// The rank does nothing from `from` to `until`, as after SIGSTOP. Its peers are told nothing.
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
