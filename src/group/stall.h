#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "group/roster.h"

namespace tally::group {

// A finding about ranks that wait.
struct Stall {
  EventKind kind = EventKind::kStalled;  // or kMismatch
  std::vector<Rank> culprits;
  std::vector<Rank> waiters;
  std::string key;        // the same text while it is the same stall with the same culprits
  std::string operation;  // "#17 allreduce sum of 1000 float32"
  std::string sentence;   // names the culprit, what it did last and since when
  Rank ask = kNoRank;     // a culprit that computes and could show its stack
};

// From the latest reports to who is to blame, if some ranks have waited for `threshold` or called
// different operations. Decides only.
std::optional<Stall> diagnose_stall(std::span<const Member> members, TimePoint now,
                                    Duration threshold);

}  // namespace tally::group
