#include "group/stall.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow = 1000s;
constexpr Duration kThreshold = 10s;

OperationRecord allreduce(std::uint32_t sequence, std::uint64_t count = 1000) {
  return {.sequence = sequence,
          .operation = Operation::kAllreduce,
          .type = DataType::kFloat32,
          .algorithm = Algorithm::kDirect,
          .count = count};
}
OperationRecord barrier(std::uint32_t sequence) {
  return {.sequence = sequence, .operation = Operation::kBarrier, .algorithm = Algorithm::kDirect};
}
OperationRecord point(Operation operation, Rank peer) {
  return {
      .sequence = 5, .operation = operation, .type = DataType::kFloat32, .root = peer, .count = 8};
}

// A member that was heard just now; its clock is 7 s ahead.
Member member(Rank rank) {
  Member who{.rank = rank,
             .presence = Presence::kPresent,
             .host = rank < 2 ? "a" : "b",
             .pid = 4709 + rank,
             .heard = kNow,
             .reported = true};
  who.report.at = kNow + 7s;
  who.report.rank = rank;
  return who;
}

Member in_operation(Rank rank, OperationRecord record, Duration age,
                    std::vector<Rank> waits_for = {}, const std::string& communicator = "world",
                    std::vector<Rank> members = {}) {
  Member who = member(rank);
  record.started = who.report.at - age;
  const std::uint32_t channel = communicator == "world" ? 0 : 3;
  who.report.current =
      ReportedOperation{communicator, channel, record, std::move(members), std::move(waits_for)};
  if (!record.point()) who.report.positions = {{communicator, channel, record.sequence + 1}};
  return who;
}

Member computing(Rank rank, OperationRecord last, Duration age) {
  Member who = member(rank);
  last.stage = OperationRecord::Stage::kDone;
  last.ended = who.report.at - age;
  who.report.last = ReportedOperation{"world", 0, last, {}, {}};
  who.report.positions = {{"world", 0, last.sequence + 1}};
  return who;
}

Member joining(Rank rank, Duration age) {
  Member who = member(rank);
  who.report.joining = who.report.at - age;
  return who;
}

Member with(Member who, Presence presence, Duration silence) {
  who.presence = presence;
  who.heard = kNow - silence;
  return who;
}

Member failed(Rank rank, OperationRecord record, const Error& error) {
  Member who = member(rank);
  record.stage = OperationRecord::Stage::kFailed;
  record.ended = who.report.at;
  who.report.last = ReportedOperation{"world", 0, record, {}, {}};
  who.report.failure = error;
  return who;
}

struct Case {
  std::string name;
  std::vector<Member> members;
  std::string sentence;  // empty: no stall
  std::vector<Rank> culprits;
  Rank ask = kNoRank;
  EventKind kind = EventKind::kStalled;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

std::vector<Case> cases() {
  const Member waiting0 = in_operation(0, allreduce(17), 10200ms);
  const Member waiting1 = in_operation(1, allreduce(17), 9s);
  const Member waiting3 = in_operation(3, allreduce(17), 10s);
  Member lost = with(member(2), Presence::kLost, 20s);
  lost.reported = false;
  lost.fate = "its process was killed by signal 9";
  Member never_reported = with(member(1), Presence::kUnreachable, 12s);
  never_reported.reported = false;
  Member only_come = member(1);
  only_come.reported = false;
  return {
      {"nobody_waits", {computing(0, barrier(16), 60s), computing(1, barrier(16), 60s)}, "", {}},
      {"not_long_enough",
       {in_operation(0, allreduce(17), 9s), computing(1, barrier(16), 60s)},
       "",
       {}},
      {"one_computes",
       {waiting0, waiting1, computing(2, barrier(16), 11s), waiting3},
       "rank 2 (host b, pid 4711) is missing in #17 allreduce sum of 1000 float32: ranks 0, 1, 3 "
       "have "
       "waited for 10.2 s; rank 2 has been computing for 11.0 s, its last operation was #16 "
       "barrier",
       {2},
       2},
      {"never_called_anything",
       {waiting0, member(1)},
       "rank 1 (host a, pid 4710) is missing in #17 allreduce sum of 1000 float32: rank 0 has "
       "waited "
       "for 10.2 s; rank 1 has been computing for 16 min 47 s, and has not called any operation",
       {1},
       1},
      {"two_compute",
       {waiting0, computing(1, barrier(16), 11s), computing(2, barrier(15), 30s)},
       "ranks 1, 2 are missing in #17 allreduce sum of 1000 float32: rank 0 has waited for 10.2 s; "
       "rank 1 "
       "has been computing for 11.0 s, its last operation was #16 barrier; rank 2 has been "
       "computing for "
       "30.0 s, its last operation was #15 barrier",
       {1, 2},
       1},
      {"silent",
       {waiting0, with(computing(1, barrier(16), 1s), Presence::kUnreachable, 12s)},
       "rank 1 (host a, pid 4710) is missing in #17 allreduce sum of 1000 float32: rank 0 has "
       "waited for "
       "10.2 s; rank 1 has not been heard of for 12.0 s, its last operation was #16 barrier",
       {1}},
      {"left",
       {waiting0, with(computing(1, barrier(16), 1s), Presence::kLeft, 11s)},
       "rank 1 (host a, pid 4710) is missing in #17 allreduce sum of 1000 float32: rank 0 has "
       "waited for "
       "10.2 s; rank 1 has left the job 11.0 s ago",
       {1}},
      {"lost",
       {waiting0, waiting1, lost},
       "rank 2 (host b, pid 4711) is missing in #17 allreduce sum of 1000 float32: ranks 0, 1 have "
       "waited "
       "for 10.2 s; rank 2 is lost: its process was killed by signal 9",
       {2}},
      {"failed_elsewhere",
       {waiting0,
        failed(1, barrier(16), {.code = ErrorCode::kTimeout, .peer = 0, .message = "late"})},
       "rank 1 (host a, pid 4710) is missing in #17 allreduce sum of 1000 float32: rank 0 has "
       "waited for "
       "10.2 s; rank 1 has failed: kTimeout (rank 0): late",
       {1},
       1},
      {"waiter_was_last_heard_of_before_it_had_waited_long",
       {with(in_operation(0, allreduce(17), 9500ms), Presence::kPresent, 900ms),
        computing(1, barrier(16), 11s)},
       "",
       {}},
      {"came_and_left_while_the_others_still_count_as_waiting",
       {waiting0, with(computing(1, allreduce(17), 0s), Presence::kLeft, 0s)},
       "",
       {}},
      {"came_and_went_on_while_the_others_still_count_as_waiting",
       {waiting0, computing(1, allreduce(17), 0s)},
       "",
       {}},
      {"has_only_just_come", {waiting0, only_come}, "", {}},
      {"silent_since_it_registered",
       {waiting0, never_reported},
       "rank 1 (host a, pid 4710) is missing in #17 allreduce sum of 1000 float32: rank 0 has "
       "waited for 10.2 s; rank 1 has not been heard of for 12.0 s",
       {1}},
      {"slow_for_one",
       {waiting0, computing(1, allreduce(17), 12s)},
       "rank 0 has been in #17 allreduce sum of 1000 float32 for 10.2 s and nobody is missing: it "
       "is slow",
       {}},
      {"last_has_only_just_come", {waiting0, waiting1}, "", {}},
      {"all_are_in_it",
       {waiting0, in_operation(1, allreduce(17), 10s)},
       "ranks 0, 1 have been in #17 allreduce sum of 1000 float32 for 10.2 s and nobody is "
       "missing: it is "
       "slow",
       {}},
      {"chain_ends_at_who_computes",
       {waiting0, in_operation(1, barrier(4), 12s, {2}, "world/0", {1, 2}),
        computing(2, barrier(16), 13s)},
       "rank 2 (host b, pid 4711) is missing in #4 barrier on world/0: rank 1 has waited for 12.0 "
       "s; rank 2 "
       "has been computing for 13.0 s, its last operation was #16 barrier",
       {2},
       2},
      {"circle",
       {in_operation(0, point(Operation::kReceive, 1), 11s, {1}),
        in_operation(1, point(Operation::kReceive, 0), 12s, {0})},
       "ranks 1, 0 wait for each other in a circle: rank 1 has been in #5 receive of 8 float32 "
       "from rank 0 "
       "for 12.0 s and waits for rank 0; rank 0 has been in #5 receive of 8 float32 from rank 1 "
       "for 11.0 s "
       "and waits for rank 1",
       {1, 0}},
      {"mismatch_while_waiting",
       {in_operation(0, allreduce(17), 1s), computing(1, barrier(16), 1s),
        in_operation(2, barrier(17), 1s)},
       "ranks disagree in #17: rank 0 called allreduce sum of 1000 float32 by direct, rank 2 "
       "called barrier "
       "by direct",
       {0, 2},
       kNoRank,
       EventKind::kMismatch},
      {"mismatch_of_counts_after_failure",
       {failed(0, allreduce(3, 10), {.code = ErrorCode::kMismatch, .peer = 1, .message = "x"}),
        failed(1, allreduce(3, 20), {.code = ErrorCode::kMismatch, .peer = 0, .message = "y"})},
       "ranks disagree in #3: rank 0 called allreduce sum of 10 float32 by direct, rank 1 called "
       "allreduce "
       "sum of 20 float32 by direct",
       {0, 1},
       kNoRank,
       EventKind::kMismatch},
      {"mismatch_told_by_one",
       {failed(0, allreduce(3),
               {.code = ErrorCode::kMismatch, .peer = 1, .message = "rank 0 called this"}),
        computing(1, barrier(2), 1s)},
       "ranks disagree in #3: rank 0 called this",
       {0},
       kNoRank,
       EventKind::kMismatch},
      {"not_yet_long_in_joining", {joining(0, 9s), Member{.rank = 1}}, "", {}},
      {"one_never_came",
       {joining(0, 10s), Member{.rank = 1}, joining(2, 9s)},
       "ranks 0, 2 have been joining for 10.0 s: rank 1 has not come",
       {1}},
      {"one_came_no_further",
       {joining(0, 11s), Member{.rank = 1}, lost, Member{.rank = 3}},
       "rank 0 has been joining for 11.0 s: ranks 1, 3 have not come; rank 2 is lost: its process "
       "was killed by signal 9",
       {1, 2, 3}},
      {"all_came_and_do_not_meet",
       {joining(0, 10s), joining(1, 10s)},
       "ranks 0, 1 have been joining for 10.0 s: all have come, but they do not reach each other",
       {}},
      {"one_has_joined_already_and_left",
       {joining(0, 10s), with(computing(1, barrier(0), 0s), Presence::kLeft, 0s)},
       "",
       {}},
      {"other_communicators_may_differ",
       {in_operation(0, allreduce(17), 1s),
        in_operation(1, barrier(17), 1s, {}, "world/0", {1, 2})},
       "",
       {}},
  };
}

class Stalls : public testing::TestWithParam<Case> {};

TEST_P(Stalls, AreDescribedInOneSentence) {
  const Case& each = GetParam();
  const auto stall = diagnose_stall(each.members, kNow, kThreshold);
  ASSERT_EQ(stall.has_value(), !each.sentence.empty()) << (stall ? stall->sentence : "");
  if (!stall) return;
  EXPECT_EQ(stall->sentence, each.sentence);
  EXPECT_EQ(stall->culprits, each.culprits);
  EXPECT_EQ(stall->ask, each.ask);
  EXPECT_EQ(stall->kind, each.kind);
}

INSTANTIATE_TEST_SUITE_P(Table, Stalls, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& each) { return each.param.name; });

// The messages of a watch, step by step.
class Watch : public testing::Test {
 protected:
  std::vector<Member> stalled_by(Rank culprit) const {
    std::vector<Member> members;
    for (Rank rank = 0; rank < 3; ++rank)
      members.push_back(rank == culprit ? computing(rank, barrier(16), 11s)
                                        : in_operation(rank, allreduce(17), 11s));
    return members;
  }
  StallWatch::Decision look(const std::vector<Member>& members, TimePoint now) {
    return watch_.observe(diagnose_stall(members, kNow, kThreshold), members, now);
  }
  StallWatch watch_;
};

TEST_F(Watch, AsksForTheStackThenWarnsOnce) {
  const auto first = look(stalled_by(2), kNow);
  EXPECT_EQ(first.ask, 2);
  EXPECT_FALSE(first.event.has_value());
  EXPECT_FALSE(look(stalled_by(2), kNow + 1s).event.has_value());
  watch_.stack_arrived(2, "ponder < main");
  const auto told = look(stalled_by(2), kNow + 1250ms);
  ASSERT_TRUE(told.event.has_value());
  EXPECT_EQ(told.ask, kNoRank);
  EXPECT_NE(told.event->sentence.find("; its stack: ponder < main"), std::string::npos);
  EXPECT_FALSE(look(stalled_by(2), kNow + 60s).event.has_value());
  EXPECT_EQ(watch_.current(), told.event->sentence);
}

TEST_F(Watch, WarnsWithoutAStackThatDoesNotCome) {
  (void)look(stalled_by(2), kNow);
  const auto told = look(stalled_by(2), kNow + 2s);
  ASSERT_TRUE(told.event.has_value());
  EXPECT_EQ(told.event->sentence.find("stack"), std::string::npos);
}

TEST_F(Watch, WarnsAgainWhenTheCulpritChanges) {
  (void)look(stalled_by(2), kNow);
  EXPECT_TRUE(look(stalled_by(2), kNow + 2s).event.has_value());
  EXPECT_EQ(look(stalled_by(1), kNow + 3s).ask, 1);
  EXPECT_TRUE(look(stalled_by(1), kNow + 5s).event.has_value());
}

TEST_F(Watch, SaysWhenItIsOver) {
  (void)look(stalled_by(2), kNow);
  (void)look(stalled_by(2), kNow + 2s);
  const auto over = look({computing(0, allreduce(17), 1s), computing(1, allreduce(17), 1s),
                          computing(2, allreduce(17), 1s)},
                         kNow + 7s);
  ASSERT_TRUE(over.event.has_value());
  EXPECT_EQ(over.event->kind, EventKind::kRecovered);
  EXPECT_EQ(
      over.event->sentence,
      "#17 allreduce sum of 1000 float32 goes on: the stall is over, 7.0 s after it was noticed");
  EXPECT_EQ(watch_.current(), "");
}

TEST_F(Watch, IsSilentAboutAStallThatEndedInFailure) {
  (void)look(stalled_by(2), kNow);
  (void)look(stalled_by(2), kNow + 2s);
  const Error late{.code = ErrorCode::kTimeout, .peer = 2, .message = "late"};
  const auto over = look({failed(0, allreduce(17), late), failed(1, allreduce(17), late),
                          computing(2, barrier(16), 20s)},
                         kNow + 7s);
  EXPECT_FALSE(over.event.has_value());
}

TEST_F(Watch, IsSilentAboutAStallThatNobodyHeardOf) {
  (void)look(stalled_by(2), kNow);
  EXPECT_FALSE(look({}, kNow + 1s).event.has_value());
}

}  // namespace
}  // namespace tally::group
