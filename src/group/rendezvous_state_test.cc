#include "group/rendezvous_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::group {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Hello hello(Rank rank, int size, std::vector<Rank> lost = {}) {
  Hello made;
  made.rank = rank;
  made.size = size;
  made.host_name = "alpha";
  made.pid = 100 + rank;
  made.lost = std::move(lost);
  return made;
}

TEST(RendezvousState, IsCompleteWhenAllRanksHaveCome) {
  RendezvousState state(3, 1);
  for (const Rank rank : {2, 0}) ASSERT_TRUE(state.arrive(hello(rank, 3)).has_value());
  EXPECT_FALSE(state.complete());
  EXPECT_THAT(state.missing(), ElementsAre(1));
  ASSERT_TRUE(state.arrive(hello(1, 3)).has_value());
  EXPECT_TRUE(state.complete());
  const auto members = state.members();
  ASSERT_EQ(members.size(), 3U);
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(members[static_cast<std::size_t>(rank)].rank, rank);
}

TEST(RendezvousState, ARankThatComesTwiceIsRefusedWithBothPlaces) {
  RendezvousState state(3, 1);
  ASSERT_TRUE(state.arrive(hello(2, 3)).has_value());
  Hello again = hello(2, 3);
  again.pid = 777;
  const auto verdict = state.arrive(again);
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code, ErrorCode::kRefused);
  EXPECT_EQ(verdict.error().peer, 2);
  EXPECT_THAT(verdict.error().message, HasSubstr("pid 102 on alpha and pid 777 on alpha"));
}

TEST(RendezvousState, DisagreementsNameBothSides) {
  RendezvousState state(3, 1);
  ASSERT_TRUE(state.arrive(hello(0, 3)).has_value());
  const auto size = state.arrive(hello(1, 4));
  ASSERT_FALSE(size.has_value());
  EXPECT_EQ(size.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(size.error().message, HasSubstr("rank 0 (pid 100 on alpha) expects 3 ranks"));
  EXPECT_THAT(size.error().message, HasSubstr("rank 1 (pid 101 on alpha) expects 4"));
  Hello other = hello(1, 3);
  other.transport = TransportKind::kTcp;
  EXPECT_THAT(state.arrive(other).error().message, HasSubstr("wants transport auto"));
  Hello late = hello(1, 3);
  late.generation = 9;
  EXPECT_THAT(state.arrive(late).error().message, HasSubstr("wants generation 9"));
  EXPECT_THAT(state.arrive(hello(3, 3)).error().message, HasSubstr("is not one of 3 ranks"));
}

TEST(RendezvousState, TheVerdictAtTheDeadlineNamesWhoIsMissing) {
  RendezvousState state(4, 1);
  ASSERT_TRUE(state.arrive(hello(0, 4)).has_value());
  ASSERT_TRUE(state.arrive(hello(2, 4)).has_value());
  const Error verdict = state.error_at_deadline();
  EXPECT_EQ(verdict.code, ErrorCode::kTimeout);
  EXPECT_EQ(verdict.peer, 1);
  EXPECT_THAT(verdict.message, HasSubstr("rank 1, 3 did not join in time; 2 of 4 came"));
}

TEST(RendezvousState, TheVerdictTellsOfAWrongSecret) {
  RendezvousState state(2, 1);
  ASSERT_TRUE(state.arrive(hello(0, 2)).has_value());
  state.turn_away("", {.code = ErrorCode::kCorrupt, .message = "garbage"});
  state.turn_away("tally rank 1", {.code = ErrorCode::kRefused, .message = "another secret"});
  const Error verdict = state.error_at_deadline();
  EXPECT_EQ(verdict.code, ErrorCode::kRefused);
  EXPECT_EQ(verdict.peer, 1);
  EXPECT_THAT(verdict.message, HasSubstr("tally rank 1: another secret"));
  EXPECT_THAT(verdict.message, HasSubstr("a stranger: garbage"));
}

TEST(RendezvousState, SurvivorsDoNotWaitForTheLost) {
  RendezvousState state(4, 2);
  const auto survivor = [](Rank rank, std::vector<Rank> lost) {
    Hello made = hello(rank, 4, std::move(lost));
    made.generation = 2;
    return made;
  };
  ASSERT_TRUE(state.arrive(survivor(0, {2})).has_value());
  EXPECT_FALSE(state.complete());
  ASSERT_TRUE(state.arrive(survivor(3, {2, 1})).has_value());
  EXPECT_TRUE(state.complete());
  EXPECT_EQ(state.members()[1].rank, 3);
}

TEST(RendezvousState, RanksAreReadFromIdentities) {
  EXPECT_EQ(rank_in_identity("tally rank 12"), 12);
  EXPECT_EQ(rank_in_identity("tally rank "), kNoRank);
  EXPECT_EQ(rank_in_identity("tally rank 1x"), kNoRank);
  EXPECT_EQ(rank_in_identity("somebody"), kNoRank);
}

TEST(Bodies, AWelcomeSurvivesTheWire) {
  Welcome welcome{.generation = 7, .token = {}, .members = {hello(0, 2), hello(1, 2, {5, 6})}};
  welcome.token[3] = std::byte{9};
  welcome.members[1].listens = {.host = "::1", .port = 1234};
  wire::Writer writer;
  wire::write_fields(writer, welcome);
  wire::Reader reader(writer.view());
  const auto read = wire::read_fields<Welcome>(reader);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, welcome);
}

TEST(Bodies, EveryTruncationIsCorrupt) {
  wire::Writer writer;
  wire::write_fields(writer, Welcome{.generation = 1, .token = {}, .members = {hello(0, 1, {3})}});
  for (std::size_t bytes = 0; bytes < writer.view().size(); ++bytes) {
    wire::Reader reader(writer.view().first(bytes));
    ASSERT_FALSE(wire::read_fields<Welcome>(reader).has_value()) << bytes;
  }
}

}  // namespace
}  // namespace tally::group
