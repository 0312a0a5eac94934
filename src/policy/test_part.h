#pragma once
// For tests: one server part that holds one number. Plain SGD updates it as a Round decides.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "policy/round.h"

namespace tally::policy {

struct Request {
  Worker worker = 0;
  std::uint64_t token = 0;  // chosen by the worker, repeated in the answer
  bool push = false;
  bool pull = false;
  std::uint64_t clock = 0;
  std::uint64_t version = 0;
  double gradient = 0;
  ReadRule read;
};

struct Answer {
  std::uint64_t token = 0;
  bool pull = false;
  std::uint64_t version = 0;
  std::uint64_t clock = 0;
  double value = 0;
};

class TestPart {
 public:
  struct Events {
    std::function<void(Worker, const Answer&)> answer;
    std::function<void(std::uint64_t version)> closed;
    std::function<void(const std::vector<Offer>&)> round_done;
  };

  TestPart(const Rules& rules, double rate, Events events)
      : rules_(rules), rate_(rate), events_(std::move(events)), round_(rules) {}

  void join(Worker worker, int rank) {
    round_.join(worker, rank);
    settle();
  }

  void leave(Worker worker) {
    round_.leave(worker);
    std::erase_if(open_, [worker](const Open& open) { return open.request.worker == worker; });
    settle();
  }

  // Ignores requests of workers that have left.
  void handle(const Request& request) {
    const std::vector<Worker> members = round_.members();
    if (std::find(members.begin(), members.end(), request.worker) == members.end()) return;
    Open open{.request = request};
    if (request.push) {
      ++offered_;
      const Offer offer{request.worker, request.clock, request.version};
      const std::uint64_t staleness = round_.staleness_of(offer);
      const Decision decision = round_.offer(offer);
      open.is_held = decision == Decision::kHold;
      if (decision == Decision::kDrop) ++dropped_;
      if (decision == Decision::kHold) gradients_[key(offer)] = request.gradient;
      if (decision == Decision::kApply) {
        ++applied_;
        move(compensated(request), round_.rate_factor(offer));
        round_.applied(offer, staleness);
      }
    }
    open_.push_back(open);
    settle();
  }

  double value() const { return value_; }
  const Round& round() const { return round_; }
  std::uint64_t offered() const { return offered_; }
  std::uint64_t applied() const { return applied_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Open {
    Request request;
    bool is_held = false;
  };
  using Key = std::tuple<Worker, std::uint64_t, std::uint64_t>;

  static Key key(const Offer& offer) { return {offer.worker, offer.version, offer.clock}; }

  double compensated(const Request& request) {
    const double g = request.gradient;
    if (rules_.stale != plan::Stale::kCompensate) return g;
    return g + rules_.compensation * g * g * (value_ - backups_[request.worker]);
  }

  void move(double gradient, double factor) {
    value_ -= rate_ * factor * gradient;
    has_moved_ = true;
  }

  // Answers the push; a pull may still wait.
  void resolve(const Offer& offer) {
    for (Open& open : open_) {
      const Request& request = open.request;
      if (request.push && key({request.worker, request.clock, request.version}) == key(offer)) {
        open.is_held = false;
      }
    }
    gradients_.erase(key(offer));
  }

  void apply_due() {
    for (Round::Due due = round_.due(); !due.nothing(); due = round_.due()) {
      double sum = 0;
      for (const Offer& offer : due.counted)
        sum += gradients_.at(key(offer)) * round_.rate_factor(offer);
      for (const Offer& offer : due.counted) resolve(offer);
      for (const Offer& offer : due.dropped) resolve(offer);
      applied_ += due.counted.size();
      dropped_ += due.dropped.size();
      has_moved_ = has_moved_ || due.passed_over > 0;
      if (due.counted.empty()) continue;
      events_.round_done(due.counted);
      move(sum / static_cast<double>(due.counted.size()), 1);
      round_.applied(due.counted);
    }
  }

  bool may_answer(const Open& open) const {
    const ReadRule& read = open.request.read;
    return !open.is_held &&
           (!open.request.pull || round_.may_read(read.least_version, read.least_clock));
  }

  void settle() {
    for (const Open& open : open_) {
      const Request& request = open.request;
      if (request.pull && round_.version() < request.read.least_version) {
        round_.pass(request.worker, request.read.least_version);
      }
    }
    apply_due();
    for (const Open& open : std::exchange(open_, {})) {
      if (!may_answer(open)) {
        open_.push_back(open);
        continue;
      }
      if (open.request.pull) backups_[open.request.worker] = value_;
      events_.answer(open.request.worker, {.token = open.request.token,
                                           .pull = open.request.pull,
                                           .version = round_.version(),
                                           .clock = round_.slowest_clock(),
                                           .value = value_});
    }
    if (std::exchange(has_moved_, false)) events_.closed(round_.version());
  }

  const Rules rules_;
  const double rate_;
  const Events events_;
  Round round_;
  double value_ = 1;
  std::vector<Open> open_;
  std::map<Key, double> gradients_;
  std::map<Worker, double> backups_;
  bool has_moved_ = false;
  std::uint64_t offered_ = 0, applied_ = 0, dropped_ = 0;
};

}  // namespace tally::policy
