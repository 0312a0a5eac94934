#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "server/protocol/view.h"

namespace tally::server {
namespace {

View some_view() {
  return {.number = 7,
          .servers = {{.id = 3, .address = "a:1", .local_name = "x", .host = "h"}, {.id = 1}},
          .chains = {{3, 1}, {1}, {}},
          .workers = {{.id = 4, .rank = 1}, {.id = 9, .rank = 0}}};
}

TEST(View, ComesBackFromItsBytes) {
  const View view = some_view();
  const auto back = decode_view(encode(view));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, view);
}

TEST(View, OfBytesThatAreCutOrLongerIsCorrupt) {
  std::vector<std::byte> bytes = encode(some_view());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_view(std::span(bytes).first(length)).has_value()) << length;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_view(bytes).has_value());
}

TEST(View, ThatCannotBeIsCorrupt) {
  View twice = some_view();
  twice.servers[1].id = 3;
  View stranger = some_view();
  stranger.chains[2] = {8};
  View doubled = some_view();
  doubled.chains[0] = {1, 1};
  View unordered = some_view();
  std::swap(unordered.workers[0], unordered.workers[1]);
  View negative = some_view();
  negative.workers[0].rank = -1;
  for (const View& view : {twice, stranger, doubled, unordered, negative}) {
    const auto back = decode_view(encode(view));
    ASSERT_FALSE(back.has_value());
    EXPECT_EQ(back.error().code, ErrorCode::kCorrupt);
  }
}

TEST(View, OfAnyBytesIsReadOrRefused) {
  Rng rng(5);
  const std::vector<std::byte> good = encode(some_view());
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<std::byte> bytes = good;
    for (int flips = 0; flips < 3; ++flips)
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.next());
    const auto view = decode_view(bytes);
    if (!view.has_value()) continue;
    EXPECT_EQ(encode(*view), bytes);
  }
}

TEST(Joining, ComesBackFromItsBytes) {
  for (const bool is_server : {false, true}) {
    const Joining joining{.is_server = is_server,
                          .rank = 3,
                          .server = {.id = 0, .address = "a:1", .local_name = "b", .host = "c"},
                          .pid = 4711};
    const auto bytes = encode(joining);
    const auto back = decode_joining(bytes);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->is_server, is_server);
    EXPECT_EQ(back->rank, 3);
    EXPECT_EQ(back->server, joining.server);
    EXPECT_EQ(back->pid, 4711);
    EXPECT_FALSE(decode_joining(std::span(bytes).first(bytes.size() - 1)).has_value());
  }
  std::vector<std::byte> other = encode(Joining{});
  other[0] = std::byte{2};
  EXPECT_FALSE(decode_joining(other).has_value());
  EXPECT_FALSE(decode_joining(encode(Joining{.rank = -1})).has_value());
}

TEST(SlotOf, SpreadsPartsEvenlyFromTheTablesOwnBeginning) {
  EXPECT_EQ(slot_of(0, 0, 3), 0U);
  EXPECT_EQ(slot_of(4, 0, 3), 1U);
  EXPECT_EQ(slot_of(4, 2, 3), 0U);
  EXPECT_EQ(slot_of(0xFFFE, 0xFFFFFFFF, 1), 0U);
}

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
      // The head fails: the next server becomes primary, and a new replica is added.
      {{{1, 2}, {2, 3}, {3, 1}}, {1, 2, 3}, 1, 2, {{2, 3}, {2, 3}, {3, 2}}},
      {{{1, 2, 3}, {2, 3, 4}}, {1, 2, 3, 4}, 2, 3, {{1, 3, 4}, {3, 4, 1}}},
      // No server is left to hold a replica.
      {{{1, 2}, {2, 1}}, {1, 2}, 2, 2, {{1}, {1}}},
      // The only replica fails: the chain stays empty.
      {{{1}, {2}}, {1, 2}, 1, 1, {{}, {2}}},
      {{{}, {2}}, {2, 3}, 3, 2, {{}, {2}}},
      // A server that is in no chain is chosen first.
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
