#include "exchange/group/tiers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include "base/check.h"

// Each rank finds the ranks that it shares memory with; the lowest of these identifies the host. An
// all-gather of these numbers (first_of) gives the same host map on all ranks.
namespace tally::exchange {
namespace {

// The ranks that share memory with this one, itself included.
Result<std::vector<Rank>> visible_ranks(Communicator& world, Deadline by) {
  TALLY_TRY(const SharedBuffer probe, world.allocate(1));
  TALLY_TRY(const auto views, world.share(probe, by));
  std::vector<Rank> visible;
  for (Rank rank = 0; rank < world.size(); ++rank)
    if (!views[static_cast<std::size_t>(rank)].empty()) visible.push_back(rank);
  // Keep the probe until all ranks have mapped it.
  TALLY_TRY(world.barrier({.by = by}));
  return visible;
}

bool all_equal(const std::map<std::int32_t, int>& ranks_of_host) {
  return std::all_of(ranks_of_host.begin(), ranks_of_host.end(), [&](const auto& host) {
    return host.second == ranks_of_host.begin()->second;
  });
}

// The rank with number `local` on each host, by host.
std::vector<Rank> lane_of(const std::vector<std::int32_t>& first_of, int local) {
  std::map<std::int32_t, std::vector<Rank>> ranks_of;
  for (std::size_t rank = 0; rank < first_of.size(); ++rank)
    ranks_of[first_of[rank]].push_back(static_cast<Rank>(rank));
  std::vector<Rank> lane;
  for (const auto& [first, ranks] : ranks_of)
    lane.push_back(ranks[static_cast<std::size_t>(local)]);
  return lane;
}

}  // namespace

Result<Tiers> find_tiers(Communicator& world, SingleHost single_host, Deadline by) {
  Tiers tiers;
  TALLY_TRY(tiers.neighbours, visible_ranks(world, by));
  const std::int32_t first = tiers.neighbours.front();
  std::vector<std::int32_t> first_of(static_cast<std::size_t>(world.size()));
  TALLY_TRY(
      world.allgather(std::span<const std::int32_t>(&first, 1), std::span(first_of), {.by = by}));
  std::map<std::int32_t, int> ranks_of_host;
  for (const std::int32_t other : first_of) ++ranks_of_host[other];
  const bool is_split = single_host == SingleHost::kApart && ranks_of_host.size() == 1;
  if (all_equal(ranks_of_host) && !is_split) {
    const auto self = std::find(tiers.neighbours.begin(), tiers.neighbours.end(), world.rank());
    TALLY_CHECK(self != tiers.neighbours.end());
    tiers.local = static_cast<int>(self - tiers.neighbours.begin());
    tiers.hosts = static_cast<int>(ranks_of_host.size());
    tiers.host = static_cast<int>(std::distance(ranks_of_host.begin(), ranks_of_host.find(first)));
    tiers.lane = lane_of(first_of, tiers.local);
  } else {
    tiers.neighbours = {world.rank()};
    tiers.hosts = world.size();
    tiers.host = world.rank();
    tiers.lane.resize(first_of.size());
    std::iota(tiers.lane.begin(), tiers.lane.end(), 0);
  }
  if (tiers.hosts == 1) return tiers;
  TALLY_TRY(tiers.sums, world.split(tiers.local, tiers.host, by));
  TALLY_TRY(tiers.values, world.split(tiers.local, tiers.host, by));
  return tiers;
}

}  // namespace tally::exchange
