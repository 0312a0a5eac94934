#pragma once
// For tests: workers that train with server parts in virtual time, as WorkerClock directs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "policy/test_part.h"
#include "policy/worker_clock.h"

namespace tally::policy {

inline double exponential(Rng& rng, double mean) { return -mean * std::log1p(-rng.uniform()); }

class TestTraining {
 public:
  struct Change {
    double at = 0;
    int rank = 0;
    bool joins = false;  // otherwise the rank dies
  };
  struct Options {
    Rules rules;
    int parts = 1;
    std::uint64_t total = 100;  // as counted by steps_done()
    std::uint64_t seed = 1;
    double rate = 0.1;
    double most_delay = 0;  // a message takes 0 to most_delay, uniformly
    // The time of one step.
    std::function<double(Rng&, int rank)> seconds = [](Rng& rng, int) {
      return exponential(rng, 1);
    };
    std::vector<Change> changes;
  };

  explicit TestTraining(Options options) : options_(std::move(options)), rng_(options_.seed) {
    views_.resize(static_cast<std::size_t>(options_.parts));
    for (int part = 0; part < options_.parts; ++part) add_part(part);
    for (int rank = 0; rank < options_.rules.workers; ++rank) come(rank);
    for (const Change& change : options_.changes) {
      at(change.at, [this, change] { change.joins ? come(change.rank) : die(change.rank); });
    }
  }

  // Runs until no event is left. False if a worker waits forever or the run does not end.
  bool run() {
    constexpr int kMostEvents = 20'000'000;
    for (int i = 0; !events_.empty(); ++i) {
      if (i == kMostEvents) return false;
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.act();
    }
    return std::none_of(workers_.begin(), workers_.end(),
                        [](const auto& entry) { return entry.second->is_alive; });
  }

  const TestPart& part(int index) const { return *parts_[static_cast<std::size_t>(index)]; }
  // The time at which the last worker finished its steps.
  double ended_at() const { return ended_at_; }
  // Rounds in the order in which they were applied, all parts together.
  const std::vector<std::vector<Offer>>& rounds() const { return rounds_; }
  int rank_of(Worker worker) const { return workers_.at(worker)->me.rank; }
  // The largest lead of a worker that starts a step over the slowest live worker.
  std::uint64_t largest_gap() const { return largest_gap_; }
  std::uint64_t given_up() const { return given_up_; }
  std::uint64_t ended() const { return ended_; }

 private:
  struct Event {
    double at = 0;
    std::uint64_t order = 0;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return std::pair(at, order) > std::pair(other.at, other.order);
    }
  };
  static constexpr Read kNothingRead = {.version = ~std::uint64_t{0}, .clock = ~std::uint64_t{0}};
  struct Member {
    WorkerClock me;
    StepChoice step;
    bool is_alive = true;
    bool has_started = false;
    bool is_computing = false;
    std::uint64_t token = 1;     // of the request that it waits for; other requests have 0
    int awaited = 0;             // answers still missing
    std::uint64_t finished = 0;  // steps computed
    std::uint64_t newest = 0;
    Read read = kNothingRead;
    std::vector<double> values, gradient;
    std::vector<double> last_sent, last_heard;  // by part, to keep messages in order
  };

  void at(double time, std::function<void()> act) {
    events_.push({.at = time, .order = next_order_++, .act = std::move(act)});
  }
  double delay() { return options_.most_delay * rng_.uniform(); }
  // Sends a message that does not overtake the previous one.
  void send(double& last, std::function<void()> act) {
    last = std::max(last, now_ + delay());
    at(last, std::move(act));
  }

  void add_part(int part) {
    const auto tell = [this, part](Worker worker, const Answer& answer) {
      Member& member = *workers_.at(worker);
      send(member.last_heard[static_cast<std::size_t>(part)],
           [this, worker, part, answer] { hear(worker, part, answer); });
    };
    const auto closed = [this, part](std::uint64_t version) {
      for (auto& [worker, member] : workers_) {
        if (!member->is_alive) continue;
        send(member->last_heard[static_cast<std::size_t>(part)],
             [this, id = worker, version] { hear_closed(id, version); });
      }
    };
    parts_.push_back(std::make_unique<TestPart>(
        options_.rules, options_.rate,
        TestPart::Events{tell, closed, [this](const auto& round) { rounds_.push_back(round); }}));
  }

  void come(int rank) {
    die(rank);
    const Worker worker = next_worker_++;
    const auto parts = static_cast<std::size_t>(options_.parts);
    Member& member = *workers_.emplace(worker, std::make_unique<Member>()).first->second;
    member.me.rank = rank;
    member.values.resize(parts);
    member.gradient.resize(parts);
    member.last_sent.resize(parts);
    member.last_heard.resize(parts);
    double all_know = now_;
    for (std::size_t part = 0; part < parts; ++part) {
      send(views_[part], [this, worker, rank, part] { parts_[part]->join(worker, rank); });
      all_know = std::max(all_know, views_[part]);
    }
    at(all_know, [this, worker] {
      if (workers_.at(worker)->is_alive) request(worker, {.pull = true}, true);
    });
  }

  void die(int rank) {
    for (auto& [worker, member] : workers_) {
      if (member->is_alive && member->me.rank == rank) go(worker);
    }
  }

  void go(Worker worker) {
    workers_.at(worker)->is_alive = false;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      send(views_[part], [this, part, worker] { parts_[part]->leave(worker); });
    }
  }

  // Sends a request to all parts, and waits for their answers if `wait`.
  void request(Worker worker, Request request, bool wait) {
    Member& member = *workers_.at(worker);
    request.worker = worker;
    request.token = wait ? member.token : 0;
    if (wait) member.awaited += options_.parts;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (request.push) request.gradient = member.gradient[part];
      send(member.last_sent[part], [this, part, request] { parts_[part]->handle(request); });
    }
  }

  void begin_step(Worker worker) {
    Member& member = *workers_.at(worker);
    const std::uint64_t done = steps_done(options_.rules, member.me);
    if (done >= options_.total) {
      ++ended_;
      ended_at_ = now_;
      return go(worker);
    }
    member.finished = std::max(member.finished, member.me.clock);
    note_gap(member);
    member.step = next_step(options_.rules, member.me, done + 1 == options_.total);
    ++member.token;
    member.read = kNothingRead;
    if (!member.step.takes_part) return end_step(worker, false);
    member.is_computing = true;
    at(now_ + options_.seconds(rng_, member.me.rank), [this, worker, token = member.token] {
      const Member& one = *workers_.at(worker);
      if (one.is_alive && one.is_computing && one.token == token) end_step(worker, true);
    });
  }

  void note_gap(const Member& member) {
    for (const auto& [worker, other] : workers_) {
      if (!other->is_alive || !other->has_started || other->finished >= member.me.clock) continue;
      largest_gap_ = std::max(largest_gap_, member.me.clock - other->finished);
    }
  }

  void end_step(Worker worker, bool has_gradient) {
    Member& member = *workers_.at(worker);
    const StepChoice& step = member.step;
    member.is_computing = false;
    member.finished = step.clock;
    for (std::size_t part = 0; has_gradient && part < parts_.size(); ++part) {
      const double g = gradient(member.me.rank, step.clock, part, member.values[part]);
      member.gradient[part] += g;
      const double factor = rate_factor(options_.rules, 1.0 / options_.rules.workers, 0);
      if (step.apply_locally) member.values[part] -= options_.rate * factor * g;
    }
    const bool push = step.push && has_gradient;
    const Request all{.push = push,
                      .pull = step.pull,
                      .clock = step.clock,
                      .version = step.version,
                      .read = step.read};
    Request only_push = all, only_pull = all;
    only_push.pull = false;
    only_pull.push = false;
    if (push && step.one_request) {
      request(worker, all, true);
    } else {
      if (push) request(worker, only_push, step.wait_for_push);
      if (step.pull) request(worker, only_pull, true);
    }
    if (push) std::fill(member.gradient.begin(), member.gradient.end(), 0.0);
    if (member.awaited == 0) finish_step(worker);
  }

  void hear(Worker worker, int part, const Answer& answer) {
    Member& member = *workers_.at(worker);
    if (!member.is_alive) return;
    member.newest = std::max(member.newest, answer.version);
    if (answer.token != member.token) return;
    if (answer.pull) {
      member.read.version = std::min(member.read.version, answer.version);
      member.read.clock = std::min(member.read.clock, answer.clock);
      member.values[static_cast<std::size_t>(part)] = answer.value;
    }
    if (--member.awaited == 0) finish_step(worker);
  }

  void finish_step(Worker worker) {
    Member& member = *workers_.at(worker);
    member.read.newest_version = member.newest;
    if (member.has_started) {
      member.me = after_step(options_.rules, member.me, member.step, member.read);
    } else {
      member.me = join(options_.rules, member.me.rank, member.read);
      member.has_started = true;
    }
    begin_step(worker);
  }

  void hear_closed(Worker worker, std::uint64_t version) {
    Member& member = *workers_.at(worker);
    member.newest = std::max(member.newest, version);
    if (!member.is_alive || !member.is_computing) return;
    if (!is_too_late(options_.rules, member.me, member.newest, false)) return;
    ++given_up_;
    end_step(worker, false);
  }

  // The gradient of a quadratic whose minimum depends on the rank, with noise that depends on rank,
  // step and part.
  double gradient(int rank, std::uint64_t clock, std::size_t part, double at) const {
    Rng noise(Rng(Rng(clock * 64 + part).next() ^ static_cast<std::uint64_t>(rank)).next());
    return (1 + 0.25 * static_cast<double>(part)) * (at - 0.1 * rank) + noise.uniform() - 0.5;
  }

  const Options options_;
  Rng rng_;
  double now_ = 0;
  double ended_at_ = 0;
  std::uint64_t next_order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<TestPart>> parts_;
  std::vector<double> views_;  // by part: the time of its last membership update
  std::map<Worker, std::unique_ptr<Member>> workers_;
  Worker next_worker_ = 1;
  std::vector<std::vector<Offer>> rounds_;
  std::uint64_t largest_gap_ = 0, given_up_ = 0, ended_ = 0;
};

}  // namespace tally::policy
