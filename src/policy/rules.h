#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "tally/error.h"

namespace tally::policy {

// The synchronization rules of a plan for a known number of workers: when updates are applied, and
// how stale gradients are treated.
struct Rules {
  plan::Update update = plan::Update::kBsp;
  int workers = 1;
  std::uint64_t bound = 0;       // ssp: clocks that the fastest may be ahead
  int needed = 1;                // contributions to a round: bsp N, backup N-B, subset and kbatch K
  std::uint64_t push_every = 1;  // asp: steps between pushes
  std::uint64_t fetch_every = 1;  // asp: and between pulls
  plan::Stale stale = plan::Stale::kKeep;
  std::uint64_t drop_above = 0;  // drop:T
  double compensation = 0;       // compensate:L
  bool adaptive = false;         // compensate:L,adaptive
  plan::Conflict conflict = plan::Conflict::kLock;
  bool full_rate = false;      // asp, ssp: rate=full
  bool kept_momentum = false;  // asp, ssp: momentum=kept
  double momentum = 0;         // of the optimizer, as the user gave it
  std::uint64_t seed = 1;      // of subsets

  // Whether gradients of one version are accumulated and applied together.
  bool has_rounds() const;
  friend bool operator==(const Rules&, const Rules&) = default;
};

// kInvalid if the plan fails plan::check(), if the number of workers does not allow it (backup:4
// with 4 workers), and for update=average and local, which have no gradients.
Result<Rules> rules_of(const plan::Plan& plan, int workers, std::uint64_t seed);

// The ranks that take part in the step of this version, rising: all, or the K of N that subset:K
// draws, by seed and version alone.
std::vector<int> drawn_ranks(const Rules& rules, std::uint64_t version);
bool takes_part(const Rules& rules, int rank, std::uint64_t version);

// The condition for reading the values after a push.
struct ReadRule {
  std::uint64_t least_version = 0;
  std::uint64_t least_clock = 0;
  friend bool operator==(const ReadRule&, const ReadRule&) = default;
};
// `version` is the version that the worker's gradient was computed at, `clock` its finished steps.
ReadRule read_rule(const Rules& rules, std::uint64_t version, std::uint64_t clock);

// The momentum to apply. Gradients that arrive one by one from N workers act like a momentum of
// 1 - 1/N on top of the optimizer's m, so 1 - N (1 - m) remains, at least 0. In rounds, and with
// momentum=kept, it is m.
double corrected_momentum(const Rules& rules);

// The factor of the learning rate for a gradient. In rounds it is 1. With asp and ssp it is
// (1 - corrected momentum) / (N (1 - m)), so that N gradients move the values as far in the end as
// one round does; with rate=full it is 1. With stale=scale it is divided by staleness / N, with
// rate=full by staleness, where that exceeds 1.
double rate_factor(const Rules& rules, std::uint64_t staleness);

}  // namespace tally::policy
