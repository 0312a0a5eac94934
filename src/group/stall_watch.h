#pragma once
#include <optional>
#include <span>
#include <string>

#include "group/stall.h"

namespace tally::group {

// Decides when a stall is reported: once, again when the culprit changes, and when it is over.
class StallWatch {
 public:
  struct Decision {
    std::optional<CoordinatorEvent> event;
    Rank ask = kNoRank;  // the rank to ask for its stack
  };

  Decision observe(const std::optional<Stall>& found, std::span<const Member> members,
                   TimePoint now);
  void stack_arrived(Rank rank, const std::string& stack);
  // Drops the current stall without a report.
  void forget() { active_.reset(); }
  // The sentence of the reported stall, empty if there is none.
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
