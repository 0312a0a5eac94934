#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan.h"
#include "tally/error.h"

namespace tally::policy {

// What a plan says about when updates happen and what becomes of late gradients, with the number of workers known.
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
  bool full_rate = false;  // asp, ssp: rate=full; else each gradient counts 1/N of the rate
  bool corrected_momentum = false;  // momentum=corrected
  std::uint64_t seed = 1;           // of subsets

  // Gradients of one version are gathered and applied together.
  bool has_rounds() const;
  friend bool operator==(const Rules&, const Rules&) = default;
};

// kInvalid where the number of workers does not allow it: backup:4 with 4 workers.
Result<Rules> rules_of(const plan::Plan& plan, int workers, std::uint64_t seed);

}  // namespace tally::policy
