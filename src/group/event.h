#pragma once
#include <string>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::group {

enum class EventKind {
  kJoined,
  kUnreachable,
  kRecovered,  // ranks heard of again, or a stall that is over
  kLost,
  kStalled,
  kMismatch,
  kRefused,
  kLeft,
};

// Something that whoever watches a job should know.
struct CoordinatorEvent {
  EventKind kind = EventKind::kJoined;
  std::vector<Rank> ranks;
  std::string sentence;  // one line for a person
  Duration silence{};    // of ranks that were not heard of

  friend bool operator==(const CoordinatorEvent&, const CoordinatorEvent&) = default;
};

}  // namespace tally::group
