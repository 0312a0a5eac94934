#include "collective/topology.h"

#include <gtest/gtest.h>

namespace tally::collective {
namespace {

TEST(Topology, NumbersHostsAndLanesByTheirLowestRanks) {
  struct Case {
    std::vector<int> host_of;
    Rank rank;
    Topology expected;
  };
  const Case cases[] = {
      {{0}, 0, {.neighbours = {0}, .lane = {0}}},
      {{7, 7, 7}, 1, {.neighbours = {0, 1, 2}, .local = 1, .lanes = 3, .lane = {1}}},
      {{9, 4, 6}, 2, {.neighbours = {2}, .hosts = 3, .host = 2, .lane = {0, 1, 2}}},
      {{5, 2, 5, 2},
       3,
       {.neighbours = {1, 3}, .local = 1, .hosts = 2, .host = 1, .lanes = 2, .lane = {2, 3}}},
      // Host 1 has one rank, so there is one lane.
      {{0, 0, 0, 1}, 0, {.neighbours = {0, 1, 2}, .hosts = 2, .lane = {0, 3}, .is_even = false}},
      {{0, 0, 0, 1},
       2,
       {.neighbours = {0, 1, 2}, .local = 2, .hosts = 2, .lane = {}, .is_even = false}},
      {{0, 1, 1, 0, 0},
       2,
       {.neighbours = {1, 2},
        .local = 1,
        .hosts = 2,
        .host = 1,
        .lanes = 2,
        .lane = {3, 2},
        .is_even = false}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.host_of) + " as rank " + std::to_string(c.rank));
    const Topology found = topology_of(c.host_of, c.rank);
    EXPECT_EQ(found.neighbours, c.expected.neighbours);
    EXPECT_EQ(found.local, c.expected.local);
    EXPECT_EQ(found.hosts, c.expected.hosts);
    EXPECT_EQ(found.host, c.expected.host);
    EXPECT_EQ(found.lanes, c.expected.lanes);
    EXPECT_EQ(found.lane, c.expected.lane);
    EXPECT_EQ(found.is_even, c.expected.is_even);
  }
}

TEST(Topology, CutsAVectorIntoOnePartPerLane) {
  const Topology topology = topology_of(std::vector<int>{0, 0, 0, 1, 1}, 0);
  std::vector<std::size_t> ends;
  for (const Part& part : lane_parts(topology, 7)) {
    EXPECT_EQ(part.begin, ends.empty() ? 0 : ends.back());
    ends.push_back(part.end);
  }
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0], part_of(7, 2, 0).end);
  EXPECT_EQ(ends[1], 7U);
  EXPECT_EQ(ends[2], 7U);
}

}  // namespace
}  // namespace tally::collective
