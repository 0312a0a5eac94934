#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "policy/rules.h"
#include "policy/staleness.h"
#include "tally/error.h"

namespace tally::policy {

using Worker = std::uint32_t;

// A gradient that a worker offers.
struct Offer {
  Worker worker = 0;
  std::uint64_t clock = 0;    // steps that the worker has finished with it
  std::uint64_t version = 0;  // that it was computed at
};

enum class Verdict : std::uint8_t {
  kApply,  // at once, by itself
  kHold,   // it will be part of a round
  kDrop,   // too late: without effect
};

// The rules of one part of a table: which gradients make up which update, who may read when, who is waited for. A value
// without clock or thread; the same calls give the same decisions.
class Round {
 public:
  explicit Round(const Rules& rules) : rules_(rules) {}

  // A worker that joins starts at the slowest clock of those that are there. A rank that is there already is replaced.
  void join(Worker worker, int rank);
  // Nobody waits for it any more. What it had offered to a round is kept.
  void leave(Worker worker);

  // `staleness` is counted on kApply and for members of rounds when they are applied.
  Verdict offer(const Offer& offer);
  // The held offers that make up the next update, now: by rank, then by clock; empty while it is not complete. Those of the
  // round that are not in it come too late: they are in `dropped`. To be asked after offer() and leave(), again and again.
  struct Due {
    std::vector<Offer> counted;
    std::vector<Offer> dropped;
  };
  Due due();
  // What due() or kApply gave has been applied: the next version.
  void applied();

  // The worker has finished so many steps, with or without a gradient.
  void advance(Worker worker, std::uint64_t clock);

  std::uint64_t version() const { return version_; }
  void set_version(std::uint64_t version) { version_ = version; }
  std::uint64_t slowest_clock() const;
  bool may_read(std::uint64_t least_version, std::uint64_t least_clock) const;
  // Whether as many workers have come as there are to be, or one has left since.
  bool is_complete() const;
  std::vector<Worker> members() const;
  // Members whose gradient of this version can no longer count once it is applied: to be told.
  const Histogram& staleness() const { return histogram_; }

  // What the rate of a gradient is multiplied with: 1/N, 1/staleness, or 1.
  double rate_factor(std::uint64_t staleness) const;

 private:
  struct Member {
    int rank = 0;
    std::uint64_t clock = 0;
  };
  const Rules rules_;
  std::map<Worker, Member> members_;
  std::map<std::uint64_t, std::vector<Offer>> held_;  // by version
  std::uint64_t version_ = 0;
  int ever_joined_ = 0;
  Histogram histogram_;
};

// Whether a worker takes part in the step of this version: subset:K draws K of N, the same for everybody.
bool takes_part(const Rules& rules, int rank, std::uint64_t version);

// When the values after a push may be read.
struct ReadRule {
  std::uint64_t least_version = 0;
  std::uint64_t least_clock = 0;
};
// `version`: that the worker's gradient was computed at; `clock`: steps it has finished.
ReadRule read_rule(const Rules& rules, std::uint64_t version, std::uint64_t clock);

}  // namespace tally::policy
