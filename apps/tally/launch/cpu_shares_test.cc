#include "apps/tally/launch/cpu_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tally::launch {
namespace {

using Shares = std::vector<std::vector<int>>;

// A machine of `nodes` NUMA nodes with `cores` cores each. Hardware threads are numbered as on
// Linux: the first thread of every core, then the second threads.
std::vector<Cpu> machine(int nodes, int cores, int threads = 1) {
  std::vector<Cpu> cpus;
  for (int thread = 0; thread < threads; ++thread)
    for (int i = 0; i < nodes * cores; ++i)
      cpus.push_back({.number = thread * nodes * cores + i, .node = i / cores, .core = i});
  return cpus;
}

TEST(CpuShares, AreContiguousAndStayInTheirNode) {
  struct Case {
    const char* what;
    std::vector<Cpu> cpus;
    int ranks;
    Shares shares;
  };
  const std::vector<Case> cases = {
      {"one each", machine(1, 2), 2, {{0}, {1}}},
      {"two each", machine(1, 4), 2, {{0, 1}, {2, 3}}},
      {"not a multiple", machine(1, 4), 3, {{0}, {1}, {2, 3}}},
      {"one rank has all", machine(2, 2), 1, {{0, 1, 2, 3}}},
      {"a node each", machine(2, 2), 2, {{0, 1}, {2, 3}}},
      {"half a node each", machine(2, 2), 4, {{0}, {1}, {2}, {3}}},
      {"three on two nodes: none across", machine(2, 4), 3, {{0, 1, 2, 3}, {4, 5}, {6, 7}}},
      {"two on four nodes: whole nodes", machine(4, 2), 2, {{0, 1, 2, 3}, {4, 5, 6, 7}}},
      {"threads of a core together", machine(1, 2, 2), 2, {{0, 2}, {1, 3}}},
      {"more ranks than cores: a thread each", machine(1, 2, 2), 4, {{0}, {2}, {1}, {3}}},
      {"more ranks than threads: shared", machine(1, 2), 4, {{0}, {0}, {1}, {1}}},
      {"not all may be used", {{5, 1, 5}, {2, 0, 2}, {3, 0, 3}, {4, 1, 4}}, 2, {{2, 3}, {4, 5}}},
  };
  for (const Case& each : cases)
    EXPECT_EQ(share_cpus(each.cpus, each.ranks), each.shares) << each.what;
}

// For every machine and number of ranks, each rank gets at least one processor, and no two ranks
// share one while there are enough processors.
TEST(CpuShares, EveryRankHasSomeAndNoneIsGivenTwice) {
  for (const int nodes : {1, 2, 3, 4})
    for (const int cores : {1, 2, 3, 8})
      for (const int threads : {1, 2})
        for (int ranks = 1; ranks <= 2 * nodes * cores * threads; ++ranks) {
          const Shares shares = share_cpus(machine(nodes, cores, threads), ranks);
          ASSERT_EQ(shares.size(), static_cast<std::size_t>(ranks));
          std::set<int> used;
          std::size_t given = 0;
          for (const auto& share : shares) {
            EXPECT_FALSE(share.empty());
            used.insert(share.begin(), share.end());
            given += share.size();
          }
          if (ranks <= nodes * cores * threads) {
            EXPECT_EQ(used.size(), given) << nodes << " nodes, " << cores << " cores, " << ranks;
          }
        }
}

TEST(CpuShares, ListsAsTheKernelWritesThemAreRead) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5\n"), (std::vector<int>{5}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>());
  EXPECT_EQ(parse_cpu_list("x,3-1,0-99999999,2"), std::vector<int>{2});
}

TEST(CpuShares, TheMachineHasProcessors) { EXPECT_FALSE(usable_cpus().empty()); }

}  // namespace
}  // namespace tally::launch
