#include "group/stall_watch.h"

#include <fmt/format.h>

namespace tally::group {
namespace {

// Time for a culprit to send its stack before the stall is reported without it.
constexpr Duration kAnswerTime = std::chrono::seconds(2);

}  // namespace

StallWatch::Decision StallWatch::observe(const std::optional<Stall>& found,
                                         std::span<const Member> members, TimePoint now) {
  Decision decision;
  if (!found) {
    if (active_ && active_->said) decision.event = over(members, now);
    active_.reset();
    return decision;
  }
  if (!active_ || active_->stall.key != found->key) {
    active_ = Active{.stall = *found, .since = now, .answer_by = now + kAnswerTime};
    decision.ask = found->ask;
  }
  active_->stall = *found;
  const bool awaits_stack =
      found->ask != kNoRank && active_->stack.empty() && now < active_->answer_by;
  if (active_->said || awaits_stack) return decision;
  active_->said = true;
  active_->sentence = found->sentence;
  if (!active_->stack.empty()) active_->sentence += "; its stack: " + active_->stack;
  decision.event = CoordinatorEvent{found->kind, found->culprits, active_->sentence};
  return decision;
}

void StallWatch::stack_arrived(Rank rank, const std::string& stack) {
  if (active_ && active_->stall.ask == rank) active_->stack = stack;
}

// The stall is over only if all waiting ranks went on; ranks that gave up do not count.
std::optional<CoordinatorEvent> StallWatch::over(std::span<const Member> members,
                                                 TimePoint now) const {
  if (active_->stall.kind == EventKind::kMismatch) return std::nullopt;
  for (const Rank rank : active_->stall.waiters) {
    const Member& who = members[static_cast<std::size_t>(rank)];
    if (who.presence == Presence::kLost || who.report.failure) return std::nullopt;
  }
  return CoordinatorEvent{
      EventKind::kRecovered, active_->stall.culprits,
      fmt::format("{} goes on: the stall is over, {} after it was noticed",
                  active_->stall.operation, seconds_text(now - active_->since))};
}

}  // namespace tally::group
