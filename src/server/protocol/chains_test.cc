#include "server/protocol/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::server {
namespace {

using testing::ElementsAre;
using Chain = std::vector<NodeId>;

std::vector<ServerInfo> servers(const std::vector<NodeId>& ids) {
  std::vector<ServerInfo> list;
  for (const NodeId id : ids) list.push_back({.id = id});
  return list;
}

TEST(Chains, BeginWithEachServerAndItsNeighbours) {
  EXPECT_THAT(founding_view(servers({5}), {}, 0).chains, ElementsAre(Chain{5}));
  EXPECT_THAT(founding_view(servers({5, 2}), {}, 0).chains, ElementsAre(Chain{5, 2}, Chain{2, 5}));
  EXPECT_THAT(founding_view(servers({1, 2, 3}), {}, 0).chains,
              ElementsAre(Chain{1, 2}, Chain{2, 3}, Chain{3, 1}));
  EXPECT_THAT(founding_view(servers({1, 2, 3}), {}, 1).chains,
              ElementsAre(Chain{1}, Chain{2}, Chain{3}));
  EXPECT_THAT(founding_view(servers({1, 2}), {}, 3).chains, ElementsAre(Chain{1, 2}, Chain{2, 1}));
}

TEST(Chains, AreFilledUpWithWhoHasTheFewestPlaces) {
  struct Case {
    std::vector<Chain> before;
    std::vector<NodeId> there;
    NodeId lost;
    int copies;
    std::vector<Chain> after;
  };
  const std::vector<Case> cases{
      // The head goes: the next is primary, and another copy is made.
      {{{1, 2}, {2, 3}, {3, 1}}, {1, 2, 3}, 1, 2, {{2, 3}, {2, 3}, {3, 2}}},
      {{{1, 2, 3}, {2, 3, 4}}, {1, 2, 3, 4}, 2, 3, {{1, 3, 4}, {3, 4, 1}}},
      // Nobody is left to be a copy.
      {{{1, 2}, {2, 1}}, {1, 2}, 2, 2, {{1}, {1}}},
      // The only copy goes: the chain stays empty.
      {{{1}, {2}}, {1, 2}, 1, 1, {{}, {2}}},
      {{{}, {2}}, {2, 3}, 3, 2, {{}, {2}}},
      // One without any place comes first.
      {{{1, 2}, {2, 1}}, {1, 2, 9}, 1, 2, {{2, 9}, {2, 9}}},
  };
  for (const Case& one : cases) {
    const View before{.number = 4, .servers = servers(one.there), .chains = one.before};
    const View after = without_server(before, one.lost, one.copies);
    EXPECT_EQ(after.chains, one.after);
    EXPECT_EQ(after.number, 5U);
    EXPECT_FALSE(has_server(after, one.lost));
  }
}

TEST(Chains, ALateServerIsPutAtTheEndOfShortOnes) {
  const View before{.number = 1, .servers = servers({1}), .chains = {{1}, {}}};
  const View after = with_server(before, {.id = 6}, 2);
  EXPECT_THAT(after.chains, ElementsAre(Chain{1, 6}, Chain{}));
  EXPECT_EQ(with_server(after, {.id = 6}, 2), after);
  EXPECT_EQ(without_server(after, 99, 2), after);
}

TEST(Chains, AWorkerTakesThePlaceOfOneWithItsRank) {
  View view{.number = 1};
  view = with_worker(view, {.id = 8, .rank = 1});
  view = with_worker(view, {.id = 5, .rank = 0});
  EXPECT_THAT(view.workers, ElementsAre(WorkerInfo{5, 0}, WorkerInfo{8, 1}));
  view = with_worker(view, {.id = 9, .rank = 0});
  EXPECT_THAT(view.workers, ElementsAre(WorkerInfo{8, 1}, WorkerInfo{9, 0}));
  view = without_worker(view, 8);
  EXPECT_THAT(view.workers, ElementsAre(WorkerInfo{9, 0}));
  EXPECT_EQ(view.number, 5U);
  EXPECT_EQ(without_worker(view, 8), view);
}

}  // namespace
}  // namespace tally::server
