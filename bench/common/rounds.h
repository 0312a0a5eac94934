#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "base/errors.h"
#include "process/interrupt.h"
#include "process/progress.h"
#include "tally/error.h"

namespace tally::bench {

// kClosed once the process is interrupted.
inline Result<void> check_interrupted() {
  if (process::interrupted() == 0) return {};
  return make_error(ErrorCode::kClosed, "interrupted");
}

// The failures of a comparison, one text each. An interruption makes contenders fail; such failures
// are left out.
struct Failures {
  std::vector<std::string> texts;

  void add(const std::string& who, const Error& error, process::Progress& progress) {
    if (process::interrupted() != 0) return;
    texts.push_back(who + ": " + error.message);
    progress.note("failed: " + texts.back());
  }
};

// Calls `turn` with the index of each contender. Each round begins with another contender, so that
// no contender always follows the same neighbour. Ends early when the process is interrupted.
template <typename Turn>
void take_turns(int round, std::size_t contenders, Turn turn) {
  for (std::size_t i = 0; i < contenders && process::interrupted() == 0; ++i)
    turn((i + static_cast<std::size_t>(round)) % contenders);
}

}  // namespace tally::bench
