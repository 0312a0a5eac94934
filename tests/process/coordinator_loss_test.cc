// Ranks that die, stop or leave while a coordinator watches.
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "process/watched_crew.h"

namespace tally::process {
namespace {

class WatchedLoss : public testing::TestWithParam<std::string> {};

// With a deadline of half a minute nobody but the coordinator can tell so early.
TEST_P(WatchedLoss, StoppedRankIsUnreachableThenLostLongBeforeTheDeadline) {
  constexpr Rank kStopped = 1;
  WatchedCrew crew({.crew = {.transport = GetParam(), .timeout_s = 60}, .lost_after_s = 1.2});
  ASSERT_TRUE(crew.start_all({"loop", "allreduce", "1000"}));
  const std::int64_t stopped_ms = now_ms();
  crew[kStopped].signal(SIGSTOP);
  EXPECT_TRUE(crew.says("rank 1 on host"));
  EXPECT_TRUE(crew.says("; it is lost"));
  for (const Rank rank : {0, 2}) {
    const std::int64_t noticed_ms =
        expect_outcome(crew[rank], "kPeerLost", kStopped, "the coordinator says");
    EXPECT_GE(noticed_ms - stopped_ms, 900) << "rank " << rank;
    EXPECT_LE(noticed_ms - stopped_ms, 1200 + 2 * kSlack.count()) << "rank " << rank;
  }
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"lost")"));
  // When it goes on it learns that it is not needed any more.
  crew[kStopped].signal(SIGCONT);
  const auto outcome = outcome_of(crew[kStopped]);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code, "kPeerLost");
}

TEST_P(WatchedLoss, ShortStopIsForgiven) {
  WatchedCrew crew({.crew = {.transport = GetParam()}, .lost_after_s = 20});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  crew[1].signal(SIGSTOP);
  EXPECT_TRUE(crew.says("rank 1 on host"));
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"unreachable")"));
  crew[1].signal(SIGCONT);
  EXPECT_TRUE(crew.says("is heard of again"));
  crew[0].tell("stop");
  EXPECT_TRUE(crew.crew().all_say("done"));
  EXPECT_EQ(crew.coordinator().output().find("lost"), std::string::npos);
}

TEST_P(WatchedLoss, KilledRankIsLostAtOnce) {
  WatchedCrew crew({.crew = {.transport = GetParam()}, .heartbeat_s = 5});
  ASSERT_TRUE(crew.start_all({"loop", "allreduce", "1000"}));
  const std::int64_t killed_ms = now_ms();
  crew[2].signal(SIGKILL);
  EXPECT_TRUE(crew.says("is lost: its connection ended without a goodbye"));
  for (const Rank rank : {0, 1}) {
    const std::int64_t noticed_ms = expect_outcome(crew[rank], "kPeerLost", 2);
    EXPECT_LE(noticed_ms - killed_ms, kLossTime.count()) << "rank " << rank;
  }
}

TEST_P(WatchedLoss, RankThatLeavesIsNotLost) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"part"}));
  crew[2].tell("leave");
  EXPECT_TRUE(crew.status_has(R"({"rank":2,"state":"left")"));
  EXPECT_TRUE(crew[2].exits(0));
  std::this_thread::sleep_for(seconds(1));
  for (const Rank rank : {0, 1}) crew[rank].tell("work among yourselves");
  for (const Rank rank : {0, 1})
    EXPECT_EQ(crew[rank].line("sums"), "sums 100 right") << crew[rank].transcript();
  EXPECT_EQ(crew.coordinator().output().find("lost"), std::string::npos);
}

TEST_P(WatchedLoss, SurvivorsThatFormAnewAreWatchedAsTheNextGeneration) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"reform", "50", "20"}));
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
