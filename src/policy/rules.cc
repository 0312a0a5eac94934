#include "policy/rules.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/rng.h"

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
    case Update::kBsp:
      return workers;
    case Update::kAsp:
    case Update::kSsp:
      return 1;
    default:
      return invalid(fmt::format("{} exchanges no gradients", plan::update_text(plan)));
  }
}

}  // namespace

bool Rules::has_rounds() const { return update != Update::kAsp && update != Update::kSsp; }

Result<Rules> rules_of(const plan::Plan& plan, int workers, std::uint64_t seed) {
  constexpr int kMostWorkers = 65536;
  TALLY_TRY(plan::check(plan));
  if (workers < 1 || workers > kMostWorkers) {
    return invalid(fmt::format("{} workers: need 1 to {}", workers, kMostWorkers));
  }
  TALLY_TRY(const int needed, needed_of(plan, workers));
  return Rules{.update = plan.update,
               .workers = workers,
               .bound = plan.bound,
               .needed = needed,
               .push_every = plan.push_every,
               .fetch_every = plan.fetch_every,
               .stale = plan.stale,
               .drop_above = plan.drop_above,
               .compensation = plan.compensation,
               .adaptive = plan.adaptive,
               .conflict = plan.conflict,
               .full_rate = plan.full_rate,
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
    default:
      return {.least_version = version + 1};
  }
}

double corrected_momentum(const Rules& rules) {
  if (rules.kept_momentum || rules.has_rounds()) return rules.momentum;
  return std::max(0.0, 1.0 - rules.workers * (1.0 - rules.momentum));
}

double rate_factor(const Rules& rules, std::uint64_t staleness) {
  if (rules.has_rounds()) return 1;
  const double share = rules.full_rate ? 1 : rules.workers;
  const double late = rules.stale == plan::Stale::kScale
                          ? std::max(1.0, static_cast<double>(staleness) / share)
                          : 1;
  if (rules.full_rate) return 1 / late;
  const double kept = (1 - corrected_momentum(rules)) / (1 - rules.momentum);
  return kept / (share * late);
}

}  // namespace tally::policy
