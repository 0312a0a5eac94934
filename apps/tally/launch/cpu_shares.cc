#include "apps/tally/launch/cpu_shares.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "base/check.h"

namespace tally::launch {
namespace {

constexpr int kMaxCpus = 1 << 16;

// The smallest thing that is given to a rank: a core with its hyperthreads, or one hyperthread.
struct Unit {
  int node = 0;
  std::vector<int> cpus;
};

std::vector<Unit> units_of(const std::vector<Cpu>& cpus, bool whole_cores) {
  std::vector<Unit> units;
  const Cpu* last = nullptr;
  for (const Cpu& cpu : cpus) {
    const bool same_core =
        whole_cores && last != nullptr && last->node == cpu.node && last->core == cpu.core;
    if (!same_core) units.push_back({.node = cpu.node});
    units.back().cpus.push_back(cpu.number);
    last = &cpu;
  }
  return units;
}

// Units [first, first + count) of one NUMA node.
struct Node {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<Node> nodes_of(const std::vector<Unit>& units) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || units[i].node != units[i - 1].node) nodes.push_back({.first = i});
    ++nodes.back().count;
  }
  return nodes;
}

void give(const std::vector<Unit>& units, std::size_t first, std::size_t count,
          std::vector<int>& share) {
  for (std::size_t i = first; i < first + count; ++i)
    share.insert(share.end(), units[i].cpus.begin(), units[i].cpus.end());
}

// Rank r of n would have units [r*u/n, (r+1)*u/n). With at least as many ranks as nodes, a rank
// goes to the node that contains the middle of this interval, and the ranks of a node divide it.
// With fewer ranks than nodes, a node goes to the rank whose interval contains the middle of the
// node.
std::vector<std::vector<int>> share_units(const std::vector<Unit>& units, std::size_t ranks) {
  std::vector<std::vector<int>> shares(ranks);
  const std::vector<Node> nodes = nodes_of(units);
  if (ranks < nodes.size()) {
    for (const Node& node : nodes) {
      const std::size_t rank = (2 * node.first + node.count) * ranks / (2 * units.size());
      give(units, node.first, node.count, shares[rank]);
    }
    return shares;
  }
  std::vector<std::vector<std::size_t>> members(nodes.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t middle = (2 * rank + 1) * units.size() / (2 * ranks);
    std::size_t at = 0;
    while (middle >= nodes[at].first + nodes[at].count) ++at;
    members[at].push_back(rank);
  }
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    const std::size_t count = members[at].size();
    for (std::size_t i = 0; i < count; ++i) {
      // With more ranks than units in the node, some ranks share a unit.
      const std::size_t first = i * nodes[at].count / count;
      const std::size_t end = std::max(first + 1, (i + 1) * nodes[at].count / count);
      give(units, nodes[at].first + first, end - first, shares[members[at][i]]);
    }
  }
  return shares;
}

}  // namespace

std::vector<std::vector<int>> share_cpus(std::vector<Cpu> cpus, int ranks) {
  TALLY_CHECK(!cpus.empty() && ranks > 0);
  std::sort(cpus.begin(), cpus.end(), [](const Cpu& a, const Cpu& b) {
    return std::tie(a.node, a.core, a.number) < std::tie(b.node, b.core, b.number);
  });
  std::vector<Unit> units = units_of(cpus, true);
  if (units.size() < static_cast<std::size_t>(ranks)) units = units_of(cpus, false);
  auto shares = share_units(units, static_cast<std::size_t>(ranks));
  // A rank whose interval contains the middle of no node, because nodes differ much in size, may
  // run anywhere.
  for (auto& share : shares)
    if (share.empty()) give(units, 0, units.size(), share);
  return shares;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> numbers;
  const auto number = [](std::string_view digits) {
    int value = -1;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t dash = part.find('-');
    const int first = number(part.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (first < 0 || last >= kMaxCpus) continue;
    for (int cpu = first; cpu <= last; ++cpu) numbers.push_back(cpu);
  }
  return numbers;
}

std::vector<Cpu> usable_cpus() {
  const auto list_in = [](const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return parse_cpu_list(line);
  };
  std::map<int, int> node_of;
  for (int node = 0;; ++node) {
    const std::string folder = fmt::format("/sys/devices/system/node/node{}", node);
    std::error_code gone;
    // The numbers of nodes may have small gaps.
    if (!std::filesystem::exists(folder, gone)) {
      if (node > 64) break;
      continue;
    }
    for (const int cpu : list_in(folder + "/cpulist")) node_of[cpu] = node;
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<Cpu> cpus;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const auto siblings =
        list_in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    const int core = siblings.empty() ? cpu : *std::min_element(siblings.begin(), siblings.end());
    cpus.push_back({.number = cpu, .node = node_of.contains(cpu) ? node_of[cpu] : 0, .core = core});
  }
  return cpus;
}

}  // namespace tally::launch
