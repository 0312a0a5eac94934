#include "sim/turns.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tally::sim {
namespace {

// The largest step of time for a rank that takes no turns: another thread may be about to act.
constexpr Duration kOutsideTime = std::chrono::milliseconds(1);

}  // namespace

Turns::Turns(int ranks, std::uint64_t seed) : rng_(seed) {
  TALLY_CHECK(ranks > 0);
  for (int rank = 0; rank < ranks; ++rank) players_.push_back(std::make_unique<Player>());
}

Turns::Player& Turns::player(Rank rank) {
  TALLY_CHECK(0 <= rank && static_cast<std::size_t>(rank) < players_.size());
  return *players_[static_cast<std::size_t>(rank)];
}

void Turns::at(TimePoint when, std::function<void()> event) {
  TALLY_CHECK(when >= now());
  if (when == TimePoint::max()) return;
  events_.push({.when = when, .number = planned_++, .happen = std::move(event)});
}

void Turns::enter(Rank rank) {
  Player& mine = player(rank);
  TALLY_CHECK(mine.stage == Stage::kOutside);
  mine.stage = Stage::kWaiting;
  mine.wake_at = now();
  if (++entered_ == players_.size()) pass_turn();
  await_turn(mine);
}

void Turns::leave(Rank rank) {
  player(rank).stage = Stage::kLeft;
  pass_turn();
  if (next_ != nullptr) std::exchange(next_, nullptr)->turn.release();
}

void Turns::yield(Rank rank, Deadline by) {
  Player& mine = player(rank);
  if (mine.stage == Stage::kOutside) {
    if (next_event() <= by.when() && next_event() < TimePoint::max()) {
      happen();
    } else if (by.when() < TimePoint::max() && by.when() > now()) {
      clock_.advance_to(std::min(by.when(), now() + kOutsideTime));
    }
    return;
  }
  TALLY_CHECK(mine.stage == Stage::kRunning);
  mine.stage = Stage::kWaiting;
  mine.wake_at = std::max(by.when(), now());
  pass_turn();
  await_turn(mine);
}

void Turns::wake(Rank rank) { player(rank).wake_at = now(); }

void Turns::stop(Rank rank, TimePoint from, TimePoint until) {
  player(rank).stops.push_back({from, until});
}

void Turns::release(Rank rank) { player(rank).stops.clear(); }

void Turns::on_stall(std::function<void(Rank)> give_up) { give_up_ = std::move(give_up); }

TimePoint Turns::due(const Player& player) const {
  TimePoint when = std::max(player.wake_at, now());
  // Stops may overlap.
  for (bool moved = true; moved;) {
    moved = false;
    for (const Stopped& stop : player.stops) {
      if (stop.from > when || when >= stop.until) continue;
      when = stop.until;
      moved = true;
    }
  }
  return when;
}

TimePoint Turns::next_due() const {
  TimePoint next = TimePoint::max();
  for (const auto& player : players_) {
    if (player->stage == Stage::kWaiting) next = std::min(next, due(*player));
  }
  return next;
}

TimePoint Turns::next_event() const {
  return events_.empty() ? TimePoint::max() : events_.top().when;
}

void Turns::happen() {
  const Event event = events_.top();
  events_.pop();
  clock_.advance_to(event.when);
  event.happen();
}

// Events of a moment come before the turns of that moment.
void Turns::pass_turn() {
  const auto waiting = [this]() TALLY_REQUIRES(mutex) {
    return std::any_of(players_.begin(), players_.end(),
                       [](const auto& player) { return player->stage == Stage::kWaiting; });
  };
  while (waiting()) {
    const TimePoint due = next_due();
    if (next_event() < TimePoint::max() && next_event() <= due) {
      happen();
    } else if (due < TimePoint::max()) {
      clock_.advance_to(due);
      give_turn_to_one_due();
      return;
    } else {
      TALLY_CHECK(give_up_all());
    }
  }
}

bool Turns::give_up_all() {
  if (!give_up_) return false;
  for (std::size_t rank = 0; rank < players_.size(); ++rank) {
    Player& stuck = *players_[rank];
    if (stuck.stage != Stage::kWaiting) continue;
    stuck.stops.clear();
    stuck.wake_at = now();
    give_up_(static_cast<Rank>(rank));
  }
  return true;
}

void Turns::give_turn_to_one_due() {
  std::vector<Player*> ready;
  for (const auto& player : players_) {
    if (player->stage == Stage::kWaiting && due(*player) <= now()) ready.push_back(player.get());
  }
  Player& chosen = *ready[rng_.below(ready.size())];
  chosen.stage = Stage::kRunning;
  next_ = &chosen;
}

// The next rank is woken without the mutex, so that its thread does not wait for this one.
void Turns::await_turn(Player& player) TALLY_NO_THREAD_SAFETY_ANALYSIS {
  Player* const next = std::exchange(next_, nullptr);
  if (next == &player) return;
  mutex.unlock();
  if (next != nullptr) next->turn.release();
  player.turn.acquire();
  mutex.lock();
}

}  // namespace tally::sim
