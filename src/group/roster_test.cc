#include "group/roster.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> sentences(const Roster::Events& events) {
  std::vector<std::string> result;
  for (const CoordinatorEvent& event : events) result.push_back(event.sentence);
  return result;
}
using Sentences = std::vector<std::string>;

// Four ranks, two each on hosts a and b, that all reported at 100 s.
class RosterOfFour : public testing::Test {
 protected:
  explicit RosterOfFour(Duration lost_after = {})
      : roster_({.size = 4, .generation = 1, .lost_after = lost_after}) {
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(roster_.registered(rank, rank < 2 ? "a" : "b", 100 + rank, 100s).has_value());
      report(rank, 100s);
    }
  }

  Roster::Events report(Rank rank, TimePoint now, std::uint64_t samples = 0) {
    return roster_.reported({.rank = rank, .generation = 1, .at = now, .samples = samples}, now);
  }
  Presence presence(Rank rank) const {
    return roster_.members()[static_cast<std::size_t>(rank)].presence;
  }
  // Ticks at a coordinator's pace. Returns the events of the last tick.
  Roster::Events tick_until(TimePoint now) {
    Roster::Events events;
    for (TimePoint at = 100s; at <= now; at += 250ms) events = roster_.tick(at);
    return events;
  }

  Roster roster_;
};

TEST_F(RosterOfFour, RanksJoinOnce) {
  Roster roster({.size = 2});
  EXPECT_EQ(sentences(*roster.registered(1, "a", 7, 1s)),
            Sentences{"rank 1 (host a, pid 7) has joined"});
  EXPECT_TRUE(roster.registered(1, "a", 7, 2s)->empty());
  const auto other = roster.registered(1, "a", 8, 3s);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().message, "rank 1 (host a, pid 7) is there already");
  EXPECT_FALSE(roster.registered(2, "a", 9, 3s).has_value());
}

TEST_F(RosterOfFour, SilentRankIsLostWithTheThirdMissedHeartbeat) {
  for (const Rank rank : {0, 1, 3}) report(rank, 102s);
  EXPECT_TRUE(tick_until(102750ms).empty());
  EXPECT_EQ(roster_.next_loss(), TimePoint(103s));
  const auto events = roster_.tick(103s);
  EXPECT_EQ(sentences(events),
            Sentences{"rank 2 on host b has not been heard of for 3.0 s; it is lost"});
  EXPECT_EQ(events[0].kind, EventKind::kLost);
  EXPECT_EQ(events[0].ranks, std::vector<Rank>{2});
  EXPECT_TRUE(roster_.tick(103250ms).empty());
}

TEST_F(RosterOfFour, ASilentRankWhoseProcessLivesIsReportedButNotLost) {
  roster_.watch_process_of(2, "here", 1);
  for (const Rank rank : {0, 1, 3}) report(rank, 102s);
  tick_until(102750ms);
  const auto events = roster_.tick(103s);
  EXPECT_EQ(sentences(events),
            Sentences{"rank 2 on host b has not been heard of for 3.0 s; its process lives, the "
                      "job waits for it"});
  EXPECT_EQ(events[0].kind, EventKind::kUnreachable);
  for (TimePoint now = 103250ms; now <= 200s; now += 250ms) {
    for (const Rank rank : {0, 1, 3}) report(rank, now);
    EXPECT_TRUE(roster_.tick(now).empty());
    EXPECT_GT(roster_.next_loss(), now);
  }
  EXPECT_EQ(sentences(report(2, 200s)),
            Sentences{"rank 2 (host b, pid 102) is heard of again after 100.0 s"});
  EXPECT_EQ(sentences(roster_.process_ended(2, "ended", 201s)),
            Sentences{"rank 2 (host b, pid 102) is lost: its process ended"});
}

TEST_F(RosterOfFour, OnlyTheRanksOfACutOffHostAreLostThatNobodyWatches) {
  roster_.watch_process_of(3, "here", 1);
  for (const Rank rank : {0, 1}) report(rank, 102s);
  tick_until(102750ms);
  EXPECT_EQ(sentences(roster_.tick(103s)),
            (Sentences{"rank 3 on host b has not been heard of for 3.0 s; its process lives, the "
                       "job waits for it",
                       "rank 2 on host b has not been heard of for 3.0 s; it is lost"}));
}

TEST_F(RosterOfFour, HostWhoseRanksAreAllSilentMayBeCutOff) {
  for (const Rank rank : {0, 1}) report(rank, 102s);
  tick_until(102750ms);
  EXPECT_EQ(
      sentences(roster_.tick(103s)),
      Sentences{"ranks 2, 3 on host b have not been heard of for 3.0 s: the link to host b may "
                "be cut; they are lost"});
}

TEST_F(RosterOfFour, RanksOfACutOffHostAreToldOfTogetherThoughTheyReportAtDifferentMoments) {
  for (const Rank rank : {0, 1}) report(rank, 102s);
  report(3, 100600ms);
  tick_until(102750ms);
  EXPECT_EQ(
      sentences(roster_.tick(103s)),
      Sentences{"ranks 2, 3 on host b have not been heard of for 2.4 s: the link to host b may "
                "be cut; they are lost"});
}

TEST_F(RosterOfFour, ARankOfTheHostThatIsHeardOfIsNotTakenAlong) {
  for (const Rank rank : {0, 1}) report(rank, 102s);
  report(3, 101900ms);
  tick_until(102750ms);
  EXPECT_EQ(sentences(roster_.tick(103s)),
            Sentences{"rank 2 on host b has not been heard of for 3.0 s; it is lost"});
}

TEST_F(RosterOfFour, EndedConnectionOrProcessIsALossAtOnce) {
  EXPECT_EQ(sentences(roster_.connection_closed(1, 101s)),
            Sentences{"rank 1 (host a, pid 101) is lost: its connection ended without a goodbye"});
  EXPECT_EQ(sentences(roster_.process_ended(2, "was killed by signal 9", 101s)),
            Sentences{"rank 2 (host b, pid 102) is lost: its process was killed by signal 9"});
  EXPECT_TRUE(roster_.process_ended(1, "exited with code 1", 101s).empty());
}

TEST_F(RosterOfFour, RankThatHasLeftIsNeverLost) {
  EXPECT_EQ(sentences(roster_.left(3, 101s)), Sentences{"rank 3 (host b, pid 103) has left"});
  EXPECT_TRUE(roster_.connection_closed(3, 101s).empty());
  EXPECT_TRUE(roster_.process_ended(3, "exited with code 0", 101s).empty());
  for (const Rank rank : {0, 1, 2}) report(rank, 109s);
  EXPECT_TRUE(tick_until(110s).empty());
  EXPECT_EQ(presence(3), Presence::kLeft);
}

TEST_F(RosterOfFour, LostRankStaysLostUntilAnotherProcessTakesItsPlace) {
  (void)roster_.connection_closed(1, 101s);
  EXPECT_TRUE(report(1, 102s).empty());
  EXPECT_EQ(presence(1), Presence::kLost);
  EXPECT_FALSE(roster_.registered(1, "a", 101, 102s).has_value());
  EXPECT_TRUE(roster_.registered(1, "a", 999, 103s).has_value());
  EXPECT_EQ(presence(1), Presence::kPresent);
}

TEST(Roster, CoordinatorThatWasStoppedItselfStillWaitsForRanksThatStart) {
  Roster roster({.size = 2});
  EXPECT_TRUE(roster.tick(100s).empty());
  EXPECT_TRUE(roster.tick(160s).empty());
  EXPECT_TRUE(roster.tick(160250ms).empty());
  EXPECT_TRUE(roster.registered(0, "a", 1, 161s).has_value());
}

TEST_F(RosterOfFour, CoordinatorThatWasStoppedItselfBlamesNobody) {
  tick_until(101s);
  EXPECT_TRUE(roster_.tick(160s).empty());
  EXPECT_TRUE(roster_.tick(160250ms).empty());
  EXPECT_EQ(presence(2), Presence::kPresent);
}

TEST_F(RosterOfFour, ThroughputIsTakenOverTheLastReports) {
  EXPECT_EQ(roster_.samples_per_second(0), 0);
  report(0, 101s, 50);
  report(0, 102s, 100);
  EXPECT_DOUBLE_EQ(roster_.samples_per_second(0), 50);
}

TEST_F(RosterOfFour, ReportsOfAnotherGenerationAreNobodys) {
  EXPECT_TRUE(roster_.reported({.rank = 0, .generation = 2, .step = 99}, 101s).empty());
  EXPECT_EQ(roster_.members()[0].report.step, 0U);
}

class PatientRoster : public RosterOfFour {
 protected:
  PatientRoster() : RosterOfFour(10s) {}
};

TEST_F(PatientRoster, ShortSilenceIsReportedAndForgiven) {
  for (const Rank rank : {0, 1, 2}) report(rank, 102s);
  const auto events = tick_until(103s);
  EXPECT_EQ(sentences(events), Sentences{"rank 3 on host b has not been heard of for 3.0 s"});
  EXPECT_EQ(events[0].kind, EventKind::kUnreachable);
  EXPECT_EQ(presence(3), Presence::kUnreachable);
  const auto back = report(3, 105s);
  EXPECT_EQ(sentences(back), Sentences{"rank 3 (host b, pid 103) is heard of again after 5.0 s"});
  EXPECT_EQ(back[0].kind, EventKind::kRecovered);
  EXPECT_EQ(presence(3), Presence::kPresent);
}

TEST_F(PatientRoster, LongSilenceIsALoss) {
  for (const Rank rank : {0, 1, 2}) report(rank, 109s);
  tick_until(109750ms);
  EXPECT_EQ(presence(3), Presence::kUnreachable);
  EXPECT_EQ(sentences(roster_.tick(110s)),
            Sentences{"rank 3 on host b has not been heard of for 10.0 s; it is lost"});
}

TEST_F(PatientRoster, ATimeThatIsGivenHoldsForWatchedProcessesToo) {
  roster_.watch_process_of(3, "here", 1);
  for (const Rank rank : {0, 1, 2}) report(rank, 109s);
  tick_until(109750ms);
  EXPECT_EQ(sentences(roster_.tick(110s)),
            Sentences{"rank 3 on host b has not been heard of for 10.0 s; it is lost"});
}

TEST(Roster, ExpectsBackWhomAnEarlierOneKnew) {
  Roster roster({.size = 3});
  roster.expect({{.rank = 0, .presence = Presence::kPresent, .host = "a", .pid = 1},
                 {.rank = 1, .presence = Presence::kLost, .host = "a", .pid = 2, .fate = "gone"},
                 {.rank = 2, .presence = Presence::kPresent, .host = "b", .pid = 3}},
                100s, 5s);
  EXPECT_EQ(sentences(*roster.registered(0, "a", 1, 101s)),
            Sentences{"rank 0 (host a, pid 1) is back"});
  EXPECT_EQ(roster.registered(1, "a", 2, 101s).error().message, "rank 1 counts as lost: gone");
  Roster::Events events;
  for (TimePoint now = 100s; now <= 108s; now += 250ms) {
    (void)roster.reported({.rank = 0, .generation = 1}, now);
    events = roster.tick(now);
  }
  EXPECT_EQ(sentences(events),
            Sentences{"rank 2 on host b has not been heard of for 3.0 s; it is lost"});
}

}  // namespace
}  // namespace tally::group
