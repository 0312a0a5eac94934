#include "policy/round.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace tally::policy {

using plan::Update;

void Round::join(Worker worker, int rank) {
  const auto same_rank = std::find_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.first != worker && entry.second.rank == rank;
  });
  if (same_rank != members_.end()) leave(same_rank->first);
  const std::uint64_t clock = members_.empty() ? last_clock_ : slowest_clock();
  members_.try_emplace(worker, Member{.rank = rank, .clock = clock}).first->second.rank = rank;
  if (complete_) return;
  ranks_.insert(rank);
  complete_ = ranks_.size() >= static_cast<std::size_t>(rules_.workers);
  if (complete_) ranks_.clear();
}

void Round::leave(Worker worker) {
  const auto member = members_.find(worker);
  if (member == members_.end()) return;
  if (members_.size() == 1) last_clock_ = member->second.clock;
  members_.erase(member);
}

Decision Round::offer(const Offer& offer) {
  const auto member = members_.find(offer.worker);
  if (member == members_.end()) return Decision::kDrop;
  member->second.weight = offer.weight;
  const bool is_too_old =
      rules_.stale == plan::Stale::kDrop && staleness_of(offer) > rules_.drop_above;
  if (!rules_.has_rounds() && !is_too_old) return Decision::kApply;
  advance(offer.worker, offer.clock);
  if (!rules_.has_rounds()) return Decision::kDrop;
  if (rules_.any_version)
    return is_too_old ? Decision::kDrop
                      : hold_for_any({.offer = offer, .rank = member->second.rank});
  if (offer.version < version_) return Decision::kDrop;
  const bool is_asked_for = offer.version == version_
                                ? is_awaited(member->second)
                                : takes_part(rules_, member->second.rank, offer.version);
  if (!is_asked_for) return Decision::kDrop;
  Batch& batch = held_[offer.version];
  const auto again = std::find_if(batch.begin(), batch.end(), [&](const Held& held) {
    return held.offer.worker == offer.worker &&
           (rules_.update != Update::kKbatch || held.offer.clock == offer.clock);
  });
  const Held held{.offer = offer, .rank = member->second.rank};
  if (again != batch.end()) {
    *again = held;
  } else {
    batch.push_back(held);
  }
  return Decision::kHold;
}

bool Round::has_of(const Batch& batch, Worker worker) {
  return std::any_of(batch.begin(), batch.end(),
                     [worker](const Held& held) { return held.offer.worker == worker; });
}

// Rounds of any version: a repeated offer keeps its place.
Decision Round::hold_for_any(const Held& held) {
  for (auto& [version, batch] : held_)
    for (Held& earlier : batch)
      if (earlier.offer.worker == held.offer.worker && earlier.offer.clock == held.offer.clock) {
        earlier = held;
        return Decision::kHold;
      }
  hold_from(version_, held);
  return Decision::kHold;
}

// Holds a gradient for the round of `version`; with kasync, for the first round from there on that
// has no gradient of its worker.
void Round::hold_from(std::uint64_t version, const Held& held) {
  if (rules_.update == Update::kKasync)
    while (held_.count(version) != 0 && has_of(held_.at(version), held.offer.worker)) ++version;
  held_[version].push_back(held);
}

bool Round::is_drawn(Worker worker) const {
  const auto member = members_.find(worker);
  return member != members_.end() && takes_part(rules_, member->second.rank, version_);
}

// Members that have offered nothing yet, and ranks that have not joined, count with the samples of
// this gradient.
double Round::share_of(const Offer& offer) const {
  if (rules_.has_rounds()) return 1 / turns_of(rules_, workers());
  double sum = 0;
  std::size_t others = 0;
  for (const auto& [worker, member] : members_) {
    if (worker == offer.worker) continue;
    sum += member.weight > 0 ? member.weight : offer.weight;
    ++others;
  }
  const auto workers = static_cast<std::size_t>(rules_.workers);
  if (!complete_ && others + 1 < workers)
    sum += static_cast<double>(workers - 1 - others) * offer.weight;
  return offer.weight > 0 ? offer.weight / (offer.weight + sum) : 0;
}

int Round::workers() const {
  return complete_ ? std::max(1, static_cast<int>(members_.size())) : rules_.workers;
}

void Round::applied(const std::vector<Offer>& counted) {
  for (const Offer& offer : counted) histogram_.add(staleness_of(offer));
  ++version_;
}

void Round::applied(const Offer& offer, std::uint64_t staleness) {
  advance(offer.worker, offer.clock);
  histogram_.add(staleness);
  ++version_;
}

void Round::withdraw(const Offer& offer) {
  for (auto batch = held_.begin(); batch != held_.end();) {
    std::erase_if(batch->second, [&](const Held& held) { return held.offer == offer; });
    batch = batch->second.empty() ? held_.erase(batch) : std::next(batch);
  }
}

void Round::pass(Worker worker, std::uint64_t version) {
  const auto member = members_.find(worker);
  // At most the next version: no worker can know a later one.
  if (member != members_.end()) {
    member->second.passed = std::max(member->second.passed, std::min(version, version_ + 1));
  }
}

void Round::advance(Worker worker, std::uint64_t clock) {
  const auto member = members_.find(worker);
  if (member != members_.end()) member->second.clock = std::max(member->second.clock, clock);
}

bool Round::is_awaited(const Member& member) {
  if (rules_.update != Update::kSubset) return true;
  if (drawn_.empty() || drawn_version_ != version_) {
    drawn_.assign(static_cast<std::size_t>(rules_.workers), false);
    for (const int rank : drawn_ranks(rules_, version_))
      drawn_[static_cast<std::size_t>(rank)] = true;
    drawn_version_ = version_;
  }
  return member.rank >= 0 && member.rank < rules_.workers &&
         drawn_[static_cast<std::size_t>(member.rank)];
}

// The lowest version, from the current one, for which the member has offered or may offer a
// gradient.
std::uint64_t Round::next_version(Worker worker, const Member& member) const {
  for (auto later = held_.lower_bound(version_); later != held_.end(); ++later) {
    if (has_of(later->second, worker)) return later->first;
  }
  // With bsp and subset no worker drops a gradient.
  return rules_.update == Update::kBackup ? std::max(version_, member.passed) : version_;
}

bool Round::is_somebody_missing(const Batch& batch) {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& entry) {
    const auto& [worker, member] = entry;
    if (!is_awaited(member) || next_version(worker, member) > version_) return false;
    return !has_of(batch, worker);
  });
}

bool Round::is_full(const Batch& batch) {
  if (!complete_ || batch.empty()) return false;
  const auto needed = static_cast<std::size_t>(rules_.needed);
  if (rules_.update == Update::kKbatch) return batch.size() >= needed;
  const bool is_enough = rules_.update == Update::kBackup || rules_.update == Update::kKasync;
  if (is_enough && batch.size() >= needed) return true;
  return !is_somebody_missing(batch);
}

std::uint64_t Round::versions_without_anybody() {
  if (!complete_ || held_.count(version_) != 0) return 0;
  bool can_be_drawn = false;
  bool is_drawn = false;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [worker, member] : members_) {
    can_be_drawn = can_be_drawn || member.rank < rules_.workers;
    if (!is_awaited(member)) continue;
    is_drawn = true;
    least = std::min(least, next_version(worker, member));
  }
  if (is_drawn) return least - version_;
  return can_be_drawn ? 1 : 0;
}

// Takes the current round, which is full: its first gradients count. The others are late, or are
// for the next round if that takes gradients of any version.
Round::Due Round::take_current() {
  Due due;
  Batch batch = std::move(held_.extract(version_).mapped());
  const bool has_limit = rules_.update == Update::kBackup || rules_.counts_gradients();
  const std::size_t count =
      has_limit ? std::min(batch.size(), static_cast<std::size_t>(rules_.needed)) : batch.size();
  for (std::size_t i = count; i < batch.size(); ++i) {
    if (rules_.any_version) {
      hold_from(version_ + 1, batch[i]);
    } else {
      due.dropped.push_back(batch[i].offer);
    }
  }
  batch.resize(count);
  std::sort(batch.begin(), batch.end(), [](const Held& a, const Held& b) {
    return std::tie(a.rank, a.offer.clock, a.offer.worker) <
           std::tie(b.rank, b.offer.clock, b.offer.worker);
  });
  for (const Held& held : batch) due.counted.push_back(held.offer);
  return due;
}

Round::Due Round::due() {
  if (!rules_.has_rounds()) return {};
  std::uint64_t passed_over = 0;
  while (const std::uint64_t versions = versions_without_anybody()) {
    version_ += versions;
    passed_over += versions;
  }
  Due due;
  const auto current = held_.find(version_);
  if (current != held_.end() && is_full(current->second)) due = take_current();
  due.passed_over = passed_over;
  while (!held_.empty() && held_.begin()->first < version_) {
    for (const Held& held : held_.begin()->second) due.dropped.push_back(held.offer);
    held_.erase(held_.begin());
  }
  return due;
}

std::uint64_t Round::slowest_clock() const {
  if (!complete_) return 0;
  if (members_.empty()) return last_clock_;
  return std::min_element(
             members_.begin(), members_.end(),
             [](const auto& a, const auto& b) { return a.second.clock < b.second.clock; })
      ->second.clock;
}

bool Round::may_read(std::uint64_t least_version, std::uint64_t least_clock) const {
  return version_ >= least_version && (members_.empty() || slowest_clock() >= least_clock);
}

std::vector<Worker> Round::members() const {
  std::vector<Worker> workers;
  for (const auto& [worker, member] : members_) workers.push_back(worker);
  return workers;
}

std::size_t Round::held() const {
  std::size_t count = 0;
  for (const auto& [version, batch] : held_) count += batch.size();
  return count;
}

}  // namespace tally::policy
