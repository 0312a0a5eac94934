#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "group/roster.h"

namespace tally::group {

// Ranks that wait, and the ranks that they wait for.
struct Stall {
  EventKind kind = EventKind::kStalled;  // or kMismatch
  std::vector<Rank> culprits;
  std::vector<Rank> waiters;
  std::string key;        // equal while the stall and its culprits stay the same
  std::string operation;  // "#17 allreduce sum of 1000 float32"
  std::string sentence;   // names the culprit, its last operation and the time since then
  Rank ask = kNoRank;     // a culprit that computes and can be asked for its stack
};

// Finds the ranks to blame, from the latest reports, if some ranks have waited for `threshold` or
// called different operations. Pure.
std::optional<Stall> diagnose_stall(std::span<const Member> members, TimePoint now,
                                    Duration threshold);

}  // namespace tally::group
