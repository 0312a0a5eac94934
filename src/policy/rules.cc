#include "policy/rules.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/rng.h"
#include "optimizer/update_rule.h"

namespace tally::policy {
namespace {

using plan::Update;

// The number of gradients in a round.
Result<int> needed_of(const plan::Plan& plan, int workers) {
  const auto count = static_cast<std::uint64_t>(workers);
  switch (plan.update) {
    case Update::kBackup:
      if (plan.backups < count) return static_cast<int>(count - plan.backups);
      return invalid(fmt::format("update=backup:{} with {} workers: need at most backup:{}",
                                 plan.backups, workers, workers - 1));
    case Update::kSubset:
      if (plan.subset <= count) return static_cast<int>(plan.subset);
      return invalid(fmt::format("update=subset:{} with {} workers: need at most subset:{}",
                                 plan.subset, workers, workers));
    case Update::kKbatch:
      return static_cast<int>(plan.batches);
    case Update::kKasync:
      if (plan.batches <= count) return static_cast<int>(plan.batches);
      return invalid(fmt::format("update=kasync:{} with {} workers: need at most kasync:{}",
                                 plan.batches, workers, workers));
    case Update::kSoftsync:
      if (plan.softness <= count) return static_cast<int>(count / plan.softness);
      return invalid(fmt::format("update=softsync:{} with {} workers: need at most softsync:{}",
                                 plan.softness, workers, workers));
    case Update::kBsp:
      return workers;
    case Update::kAsp:
    case Update::kSsp:
      return 1;
    default:
      return invalid(fmt::format("{} exchanges no gradients", plan::update_text(plan)));
  }
}

// The update that a plan amounts to.
Update amounts_to(const plan::Plan& plan, int workers, int needed) {
  switch (plan.update) {
    case Update::kBackup:
    case Update::kSubset:
      return needed == workers ? Update::kBsp : plan.update;
    case Update::kSsp:
      return plan.bound == 0 && plan.rate != plan::RateShare::kFull ? Update::kBsp : plan.update;
    case Update::kSoftsync:
      return Update::kKbatch;
    default:
      return plan.update;
  }
}

}  // namespace

bool Rules::has_rounds() const { return update != Update::kAsp && update != Update::kSsp; }

bool Rules::counts_gradients() const {
  return update == Update::kKbatch || update == Update::kKasync;
}

Result<Rules> rules_of(const plan::Plan& plan, int workers, std::uint64_t seed) {
  constexpr int kMostWorkers = 65536;
  TALLY_TRY(plan::check(plan));
  if (workers < 1 || workers > kMostWorkers) {
    return invalid(fmt::format("{} workers: need 1 to {}", workers, kMostWorkers));
  }
  TALLY_TRY(const int needed, needed_of(plan, workers));
  const Update update = amounts_to(plan, workers, needed);
  return Rules{.update = update,
               .workers = workers,
               .bound = plan.bound,
               .needed = update == Update::kBsp ? workers : needed,
               .any_version = plan.any_version || plan.update == Update::kKasync ||
                              plan.update == Update::kSoftsync,
               .push_every = plan.push_every,
               .fetch_every = plan.fetch_every,
               .stale = plan.stale,
               .drop_above = plan.drop_above,
               .compensation = plan.compensation,
               .adaptive = plan.adaptive,
               .conflict = plan.conflict,
               .rate = plan.rate,
               .kept_momentum = plan.kept_momentum,
               .seed = seed};
}

// The first K elements of a Fisher-Yates shuffle. The seeds of neighbouring versions are hashed,
// because SplitMix64 streams whose seeds differ by its increment are shifted copies of each other.
std::vector<int> drawn_ranks(const Rules& rules, std::uint64_t version) {
  const auto workers = static_cast<std::size_t>(rules.workers);
  std::vector<int> ranks(workers);
  std::iota(ranks.begin(), ranks.end(), 0);
  if (rules.update != Update::kSubset) return ranks;
  const auto count = static_cast<std::size_t>(rules.needed);
  TALLY_CHECK(count <= workers);
  Rng rng(Rng(Rng(rules.seed).next() ^ version).next());
  for (std::size_t i = 0; i < count; ++i) std::swap(ranks[i], ranks[i + rng.below(workers - i)]);
  ranks.resize(count);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool takes_part(const Rules& rules, int rank, std::uint64_t version) {
  if (rules.update != Update::kSubset) return true;
  const std::vector<int> ranks = drawn_ranks(rules, version);
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

ReadRule read_rule(const Rules& rules, std::uint64_t version, std::uint64_t clock) {
  switch (rules.update) {
    case Update::kAsp:
      return {};
    case Update::kSsp:
      return {.least_clock = clock > rules.bound ? clock - rules.bound : 0};
    case Update::kKbatch:
      return {.least_version = version};
    default:  // kasync as well: a worker continues with the next update
      return {.least_version = version + 1};
  }
}

bool has_late_gradients(const Rules& rules) {
  if (rules.workers == 1) return false;
  if (!rules.has_rounds()) return true;
  return rules.any_version && !(rules.update == Update::kKasync && rules.needed == rules.workers);
}

double turns_of(const Rules& rules, int workers) {
  if (!rules.has_rounds()) return workers;
  if (!rules.any_version) return 1;
  return std::max(1.0, static_cast<double>(workers) / rules.needed);
}

double rate_factor(const Rules& rules, double share, std::uint64_t staleness, double power) {
  if (rules.has_rounds() && !rules.any_version) return 1;
  const double own = rules.rate != plan::RateShare::kFull ? share : 1;
  const auto late = static_cast<double>(staleness);
  const double damped = rules.rate == plan::RateShare::kDamped ? own / (1 + late * own) : own;
  double factor = power == 1 ? damped : std::pow(damped, power);
  if (rules.stale == plan::Stale::kScale) factor /= std::max(1.0, late * own);
  return factor;
}

OptimizerInTurns in_turns(const Rules& rules, const OptimizerSpec& spec, int workers) {
  OptimizerInTurns result{.spec = spec};
  const double turns = turns_of(rules, workers);
  if (turns == 1) return result;
  const bool shares_rate = rules.rate != plan::RateShare::kFull;
  if (spec.kind == OptimizerKind::kAdamW && shares_rate)
    result.spec.weight_decay /= std::pow(turns, 1 - optimizer::share_power(spec));
  if (rules.kept_momentum) return result;
  if (spec.kind == OptimizerKind::kAdam || spec.kind == OptimizerKind::kAdamW)
    result.spec.beta1 = std::max(0.0, 1 - turns * (1 - spec.beta1));
  if (spec.kind == OptimizerKind::kSgd && spec.momentum > 0) {
    result.spec.momentum = std::max(0.0, spec.momentum - (1 - 1 / turns));
    if (shares_rate) result.gain = (1 - result.spec.momentum) / (1 - spec.momentum);
    if (result.spec.momentum == 0) {  // nesterov and dampening need more
      result.spec.nesterov = false;
      result.spec.dampening = 0;
    }
  }
  return result;
}

}  // namespace tally::policy
