#include "exchange/group/tiers.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

// Each rank finds the ranks that it shares memory with; the lowest of these identifies the host. An
// all-gather of these numbers (first_of) gives the same topology on all ranks.
namespace tally::exchange {
namespace {

// The lowest rank that shares memory with this one.
Result<Rank> first_neighbour(Communicator& world, Deadline by) {
  TALLY_TRY(const SharedBuffer probe, world.allocate(1));
  TALLY_TRY(const auto views, world.share(probe, by));
  // Keep the probe until all ranks have mapped it.
  TALLY_TRY(world.barrier({.by = by}));
  const auto first =
      std::find_if(views.begin(), views.end(), [](const auto& view) { return !view.empty(); });
  return static_cast<Rank>(first - views.begin());
}

}  // namespace

Result<Tiers> find_tiers(Communicator& world, Replicas replicas, Deadline by) {
  TALLY_TRY(const std::int32_t first, first_neighbour(world, by));
  std::vector<std::int32_t> first_of(static_cast<std::size_t>(world.size()));
  TALLY_TRY(
      world.allgather(std::span<const std::int32_t>(&first, 1), std::span(first_of), {.by = by}));
  Tiers tiers{collective::topology_of(first_of, world.rank()), nullptr, nullptr};
  const bool is_split = replicas == Replicas::kPerRank ||
                        (replicas == Replicas::kPerHostIfSeveral && tiers.hosts == 1);
  if (!tiers.is_even || is_split) {
    std::iota(first_of.begin(), first_of.end(), 0);
    tiers = {collective::topology_of(first_of, world.rank()), nullptr, nullptr};
  }
  if (tiers.hosts == 1) return tiers;
  TALLY_TRY(tiers.sums, world.split(tiers.local, tiers.host, by));
  TALLY_TRY(tiers.values, world.split(tiers.local, tiers.host, by));
  return tiers;
}

}  // namespace tally::exchange
