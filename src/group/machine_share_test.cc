#include "group/machine_share.h"

#include <gtest/gtest.h>

#include "base/cpu.h"

namespace tally::group {
namespace {

TEST(MachineShare, SecondThreadNeedsTwoCoresForEachRankAndTwoPeers) {
  struct Case {
    MachineShare share;
    int hosts;
    bool expected;
  };
  const std::vector<Case> cases = {
      {{.ranks = 8, .cores = 16, .own_cores = 16}, 8, true},
      {{.ranks = 9, .cores = 16, .own_cores = 16}, 9, false},
      {{.ranks = 16, .cores = 16, .own_cores = 16}, 16, false},
      {{.ranks = 1, .cores = 2, .own_cores = 2}, 3, true},
      {{.ranks = 1, .cores = 1, .own_cores = 1}, 3, false},
      // Two hosts: both directions share a socket.
      {{.ranks = 2, .cores = 16, .own_cores = 16}, 2, false},
      {{.ranks = 4, .cores = 64, .own_cores = 64}, 2, false},
      {{.ranks = 3, .cores = 16, .own_cores = 16}, 3, true},
      {{.ranks = 1, .cores = 16, .own_cores = 16}, 1, false},
      // The launcher has bound each rank to two cores, or to one.
      {{.ranks = 8, .cores = 16, .own_cores = 2}, 8, true},
      {{.ranks = 8, .cores = 16, .own_cores = 1}, 8, false},
      {{.ranks = 8, .cores = 8, .own_cores = 1}, 8, false},
      // Two cores, which a container with a quota shares among its ranks.
      {{.ranks = 2, .cores = 2, .own_cores = 2}, 3, false},
      {{.ranks = 3, .cores = 2, .own_cores = 16}, 3, false},
  };
  for (const auto& [share, hosts, expected] : cases) {
    EXPECT_EQ(has_a_core_for_sending(share, hosts), expected)
        << share.ranks << " ranks, " << share.cores << " cores, own " << share.own_cores << ", "
        << hosts << " hosts";
  }
}

// Ranks of other machines do not count, and ranks of this machine share its cores.
TEST(MachineShare, CountsTheRanksOfThisMachine) {
  Welcome welcome;
  for (const char* const host : {"here", "there", "here", "here"}) {
    Hello& member = welcome.members.emplace_back();
    member.host_name = host;
    member.cpus = cpus_of_process();
  }
  const MachineShare share = machine_share(welcome, 2);
  EXPECT_EQ(share.ranks, 3);
  EXPECT_EQ(share.cores, usable_cores());
  EXPECT_EQ(share.own_cores, count(cpus_of_process()));
}

// A single rank that is bound to one core, or a machine with too few cores, decides for all.
TEST(MachineShare, TwoCoresForEachRankIsAFactOfTheWholeJob) {
  const auto cpus = [](int cores) {
    CpuSet set{};
    for (int core = 0; core < cores; ++core) set[0] |= std::uint64_t{1} << core;
    return set;
  };
  const auto job = [&](const std::vector<std::pair<const char*, int>>& ranks) {
    Welcome welcome;
    for (const auto& [host, cores] : ranks) {
      Hello& member = welcome.members.emplace_back();
      member.host_name = host;
      member.cpus = cpus(cores);
    }
    return welcome;
  };
  EXPECT_TRUE(all_ranks_have_two_cores(job({{"a", 4}, {"a", 4}, {"b", 2}})));
  EXPECT_FALSE(all_ranks_have_two_cores(job({{"a", 4}, {"a", 4}, {"a", 4}, {"b", 16}})));
  EXPECT_FALSE(all_ranks_have_two_cores(job({{"a", 16}, {"b", 1}})));
  EXPECT_FALSE(all_ranks_have_two_cores(job({{"a", 16}, {"a", 1}})));
}

}  // namespace
}  // namespace tally::group
