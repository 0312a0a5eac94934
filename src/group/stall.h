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

// Decides when a stall is reported: once when it is found, again when the stall or its culprits
// change, and once when it is over. A culprit is a rank that the others wait for. The first report
// waits a short time for the culprit's stack. Threads: calls must not overlap.
class StallWatch {
 public:
  struct Decision {
    std::optional<CoordinatorEvent> event;  // to report now
    Rank ask = kNoRank;                     // the rank to ask for its stack now
  };

  // Called regularly with the latest result of diagnose_stall().
  Decision observe(const std::optional<Stall>& found, std::span<const Member> members,
                   TimePoint now);
  // A stack of a rank that was not asked is ignored.
  void stack_arrived(Rank rank, const std::string& stack);
  // Drops the current stall without a report.
  void forget() { active_.reset(); }
  // The sentence of the stall that was reported last and is not over; empty if there is none.
  std::string current() const { return active_ && active_->said ? active_->sentence : ""; }

 private:
  struct Active {
    Stall stall;
    TimePoint since;
    TimePoint answer_by{};  // the report waits for the stack until then
    bool said = false;      // the stall was reported
    std::string stack;
    std::string sentence;
  };
  // The event that ends the active stall, if its end is to be reported.
  std::optional<CoordinatorEvent> over(std::span<const Member> members, TimePoint now) const;

  std::optional<Active> active_;
};

}  // namespace tally::group
