#include "collective/topology.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tally::collective {

Topology topology_of(std::span<const int> host_of, Rank rank) {
  TALLY_CHECK(0 <= rank && static_cast<std::size_t>(rank) < host_of.size());
  std::vector<std::vector<Rank>> hosts;
  std::map<int, std::size_t> index;  // by identification
  for (std::size_t other = 0; other < host_of.size(); ++other) {
    const auto [found, is_new] = index.emplace(host_of[other], hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[found->second].push_back(static_cast<Rank>(other));
  }
  const auto [smallest, largest] = std::minmax_element(
      hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const std::size_t own = index.at(host_of[static_cast<std::size_t>(rank)]);
  const auto self = std::find(hosts[own].begin(), hosts[own].end(), rank);
  Topology topology{.neighbours = hosts[own],
                    .local = static_cast<int>(self - hosts[own].begin()),
                    .hosts = static_cast<int>(hosts.size()),
                    .host = static_cast<int>(own),
                    .lanes = static_cast<int>(smallest->size()),
                    .lane = {},
                    .is_even = smallest->size() == largest->size()};
  if (topology.local < topology.lanes)
    for (const auto& ranks : hosts)
      topology.lane.push_back(ranks[static_cast<std::size_t>(topology.local)]);
  return topology;
}

std::vector<Part> lane_parts(const Topology& topology, std::size_t count) {
  std::vector<Part> parts;
  for (int local = 0; local < topology.locals(); ++local) {
    parts.push_back(local < topology.lanes ? part_of(count, topology.lanes, local)
                                           : Part{count, count});
  }
  return parts;
}

}  // namespace tally::collective
