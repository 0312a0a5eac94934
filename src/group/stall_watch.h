#pragma once
#include <optional>
#include <span>
#include <string>

#include "group/stall.h"

namespace tally::group {

// What is said about a stall and when: once, again when the culprit changes, and when it is over.
class StallWatch {
 public:
  struct Decision {
    std::optional<CoordinatorEvent> event;
    Rank ask = kNoRank;  // for its stack
  };

  Decision observe(const std::optional<Stall>& found, std::span<const Member> members,
                   TimePoint now);
  void stack_arrived(Rank rank, const std::string& stack);
  // Nobody waits any more, whatever was found before.
  void forget() { active_.reset(); }
  // What was said last, empty if nothing is stalled.
  std::string current() const { return active_ && active_->said ? active_->sentence : ""; }

 private:
  struct Active {
    Stall stall;
    TimePoint since;
    TimePoint answer_by{};
    bool said = false;
    std::string stack;
    std::string sentence;
  };
  std::optional<CoordinatorEvent> over(std::span<const Member> members, TimePoint now) const;

  std::optional<Active> active_;
};

}  // namespace tally::group
