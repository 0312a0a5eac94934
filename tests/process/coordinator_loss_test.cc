// Ranks that die, stop or leave while a coordinator watches.
#include <csignal>

#include <gtest/gtest.h>

#include "process/watched_crew.h"

namespace tally::process {
namespace {

class WatchedLoss : public testing::TestWithParam<std::string> {};

// The operations have no deadline, so that only the coordinator can end them.
TEST_P(WatchedLoss, StoppedRankIsUnreachableThenLost) {
  constexpr Rank kStopped = 1;
  const milliseconds heartbeat = scaled(milliseconds(200));
  const milliseconds lost_after = 6 * heartbeat;
  WatchedCrew crew(
      {.crew = {.transport = GetParam()}, .heartbeat = heartbeat, .lost_after = lost_after});
  ASSERT_TRUE(crew.start_all({"loop", "allreduce", "1000"}));
  crew[kStopped].stop();
  const std::int64_t stopped_ms = now_ms();
  EXPECT_TRUE(crew.says("rank 1 on host"));
  EXPECT_TRUE(crew.says("; it is lost"));
  for (const Rank rank : {0, 2}) {
    const std::int64_t noticed_ms =
        expect_outcome(crew[rank], "kPeerLost", kStopped, "the coordinator says");
    // Its last report may have come some time before the stop.
    EXPECT_GE(noticed_ms - stopped_ms, lost_after.count() / 2) << "rank " << rank;
  }
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"lost")"));
  // When the rank goes on it learns that the job gave it up.
  crew[kStopped].signal(SIGCONT);
  const auto outcome = outcome_of(crew[kStopped]);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code, "kPeerLost");
}

// The stall is reported long after three heartbeats were missed.
TEST_P(WatchedLoss, AStoppedRankIsWaitedForWhileItsProcessLives) {
  const milliseconds heartbeat = scaled(milliseconds(100));
  WatchedCrew crew({.crew = {.transport = GetParam()},
                    .heartbeat = heartbeat,
                    .lost_after = milliseconds(0),
                    .stall_warning = 10 * heartbeat});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  crew[1].stop();
  EXPECT_TRUE(crew.says("; its process lives, the job waits for it"));
  EXPECT_TRUE(crew.says("is missing in"));
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"unreachable")"));
  crew[1].signal(SIGCONT);
  EXPECT_TRUE(crew.says("is heard of again"));
  crew[0].tell("stop");
  EXPECT_TRUE(crew.crew().all_say("done"));
  EXPECT_EQ(crew.coordinator().output().find("lost"), std::string::npos);
}

TEST_P(WatchedLoss, ShortStopIsForgiven) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  crew[1].stop();
  EXPECT_TRUE(crew.says("rank 1 on host"));
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"unreachable")"));
  crew[1].signal(SIGCONT);
  EXPECT_TRUE(crew.says("is heard of again"));
  crew[0].tell("stop");
  EXPECT_TRUE(crew.crew().all_say("done"));
  EXPECT_EQ(crew.coordinator().output().find("lost"), std::string::npos);
}

TEST_P(WatchedLoss, KilledRankIsLostWithoutAMissedHeartbeat) {
  WatchedCrew crew({.crew = {.transport = GetParam()}, .heartbeat = kPatience});
  ASSERT_TRUE(crew.start_all({"loop", "allreduce", "1000"}));
  crew[2].signal(SIGKILL);
  EXPECT_TRUE(crew.says("is lost: its connection ended without a goodbye"));
  for (const Rank rank : {0, 1}) expect_outcome(crew[rank], "kPeerLost", 2);
}

TEST_P(WatchedLoss, RankThatLeavesIsNotLost) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"part"}));
  crew[2].tell("leave");
  EXPECT_TRUE(crew.status_has(R"({"rank":2,"state":"left")"));
  EXPECT_TRUE(crew[2].exits(0));
  for (const Rank rank : {0, 1}) crew[rank].tell("work among yourselves");
  for (const Rank rank : {0, 1})
    EXPECT_EQ(crew[rank].line("sums"), "sums 100 right") << crew[rank].transcript();
  EXPECT_EQ(crew.coordinator().output().find("lost"), std::string::npos);
}

TEST_P(WatchedLoss, SurvivorsInANewGroupAreWatchedAsTheNextGeneration) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"reform", "50", kNever}));
  crew[0].signal(SIGKILL);
  EXPECT_TRUE(crew.says("generation 2 begins, with 2 ranks"));
  for (const Rank rank : {1, 2})
    EXPECT_EQ(crew[rank].line("sums"), "sums 50 right") << crew[rank].transcript();
  EXPECT_TRUE(crew.says("has left"));
  EXPECT_TRUE(crew.says("has left"));
}

INSTANTIATE_TEST_SUITE_P(Process, WatchedLoss, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
