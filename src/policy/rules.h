#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "tally/error.h"
#include "tally/optimizer.h"

namespace tally::policy {

// The synchronization rules of a plan for a known number of workers: when updates are applied, and
// how stale gradients are treated.
struct Rules {
  plan::Update update = plan::Update::kBsp;
  int workers = 1;
  std::uint64_t bound = 0;        // ssp: clocks that the fastest worker may be ahead
  int needed = 1;                 // contributions to a round: bsp N, backup N-B, else K
  bool any_version = false;       // rounds take gradients of any version, not of one alone
  std::uint64_t push_every = 1;   // asp: steps between pushes
  std::uint64_t fetch_every = 1;  // asp: and between pulls
  plan::Stale stale = plan::Stale::kKeep;
  std::uint64_t drop_above = 0;  // drop:T
  double compensation = 0;       // compensate:L
  bool adaptive = false;         // compensate:L,adaptive
  plan::Conflict conflict = plan::Conflict::kLock;
  plan::RateShare rate = plan::RateShare::kDamped;
  bool kept_momentum = false;  // momentum=kept
  std::uint64_t seed = 1;      // of subsets

  // Whether gradients are accumulated and applied together: not with asp and ssp.
  bool has_rounds() const;
  // Whether a round is complete with K gradients: kbatch, kasync. No worker waits for the answer
  // to its push, which may come only after more pushes of the same worker.
  bool counts_gradients() const;
  friend bool operator==(const Rules&, const Rules&) = default;
};

// Plans whose limits leave no difference to bsp become bsp: backup:0, subset:N and, unless each
// gradient gets the full learning rate, ssp:0. softsync:n becomes kbatch:K,async with K = N/n,
// rounded down. kInvalid if the plan fails plan::check(), if the number of workers does not allow
// it (backup:4 with 4 workers), and for update=average and local, which have no gradients.
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

// Whether updates may have gradients of an older version: with asp, ssp and rounds of any version,
// unless there is one worker, or each round of kasync has a gradient of every worker.
bool has_late_gradients(const Rules& rules);

// Updates that make a step, in which every worker has one gradient on average: N with asp and ssp,
// N/K in rounds of K gradients of any version (at least 1), and 1 in other rounds.
double turns_of(const Rules& rules, int workers);

// The factor of the learning rate for a gradient. In rounds of one version it is 1. Elsewhere an
// update gets only part of the learning rate, because several updates make a step:
//   (share / (1 + t * share))^power; rate=shared: share^power; rate=full: 1
// t is the staleness. `share` is the update's part of the samples of a step: 1/turns_of() if all
// workers have equally many. `power` is 1 for sgd (optimizer::share_power). A late gradient counts
// as if t more workers shared the learning rate, because the largest stable learning rate falls
// with the delay: gradient descent with delay t is stable up to about pi / (2t + 1) over the
// curvature. n workers that take turns have t = n - 1 and the factor 1 / (2t + 1). stale=scale
// divides the factor further by t * share (rate=full: by t), where that exceeds 1.
// docs/policies.md has the measurements.
double rate_factor(const Rules& rules, double share, std::uint64_t staleness, double power = 1);

// The optimizer as it is applied where n = turns_of() updates make a step. With n = 1 it is `spec`.
// - Workers that take turns act like a momentum of 1 - 1/n. The momentum of sgd is reduced by as
//   much, but not below 0. The gain of the learning rate makes up for the difference: n updates
//   that are not late move the values as far in the end as one round of bsp does.
// - Adam's beta1 becomes 1 - n (1 - beta1), at least 0: its average spans n times fewer updates.
// - The updates of a step have n * (1/n)^power of the learning rate together. adamw's decay is
//   divided by n^(1 - power), so that the weights shrink as much in a step as with bsp, apart from
//   the factor for staleness.
// momentum=kept leaves momentum and beta1 as they are; rate=full leaves the gain at 1, and the
// decay as it is.
struct OptimizerInTurns {
  OptimizerSpec spec;
  double gain = 1;
};
OptimizerInTurns in_turns(const Rules& rules, const OptimizerSpec& spec, int workers);

}  // namespace tally::policy
