// The coordinator itself dies, is stopped, comes back, or was never there.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "group/local_access.h"
#include "net/socket.h"
#include "process/watched_crew.h"

namespace tally::process {
namespace {

class CoordinatorDeath : public testing::TestWithParam<std::string> {
 protected:
  static void expect_all_complain(WatchedCrew& crew, const std::string& text) {
    for (const Rank rank : {0, 1, 2})
      EXPECT_TRUE(crew[rank].complains(text)) << crew[rank].transcript();
  }
  static void expect_no_loss_at_the_end(WatchedCrew& crew) {
    crew[0].tell("stop");
    EXPECT_TRUE(crew.crew().all_say("done"));
    EXPECT_EQ(crew.coordinator().output().find("lost"), std::string::npos)
        << crew.coordinator().transcript();
  }
};

TEST_P(CoordinatorDeath, OperationsGoOnAndTheNextCoordinatorGetsAllRanksBack) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  crew.coordinator().signal(SIGKILL);
  ASSERT_TRUE(crew.coordinator().wait_status().has_value());  // it has closed its port
  expect_all_complain(crew, "is gone: running operations go on");
  crew.start_coordinator();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(crew.says("is back"));
  expect_all_complain(crew, "is back");
  expect_no_loss_at_the_end(crew);
}

// The next coordinator knows the rank from the state file and does not hear of it.
TEST_P(CoordinatorDeath, RankThatDiedMeanwhileIsLost) {
  WatchedCrew crew({.crew = {.transport = GetParam()}, .lost_after = scaled(seconds(1))});
  ASSERT_TRUE(crew.start_all({"wait"}));
  crew.coordinator().signal(SIGKILL);
  ASSERT_TRUE(crew.coordinator().wait_status().has_value());
  crew[2].signal(SIGKILL);
  ASSERT_TRUE(crew[2].wait_status().has_value());
  crew.start_coordinator();
  EXPECT_TRUE(crew.status_has(R"({"rank":2,"state":"lost")"));
}

TEST_P(CoordinatorDeath, StoppedCoordinatorBlamesNoRankWhenItGoesOn) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  crew.coordinator().stop();
  expect_all_complain(crew, "is gone: running operations go on");
  crew.coordinator().signal(SIGCONT);
  expect_all_complain(crew, "is back");
  expect_no_loss_at_the_end(crew);
}

INSTANTIATE_TEST_SUITE_P(Process, CoordinatorDeath, testing::Values("shm", "tls"), name_of);

// The state file names the process, so the next coordinator sees its end without a connection.
TEST(CoordinatorRestart, FindsTheProcessOfAStoppedRank) {
  WatchedCrew crew({.lost_after = milliseconds(0)});
  ASSERT_TRUE(crew.start_all({"wait"}));
  crew.coordinator().signal(SIGKILL);
  ASSERT_TRUE(crew.coordinator().wait_status().has_value());
  crew[2].stop();
  crew.start_coordinator();
  EXPECT_TRUE(crew.says("is back"));
  crew[2].signal(SIGKILL);
  EXPECT_TRUE(crew.says("is lost: its process ended"));
}

TEST(CoordinatorAbsence, JobWorksWithoutOneAndSaysSo) {
  Crew crew({.size = 2});
  for (const Rank rank : {0, 1})
    crew.start(rank, {"sums", "5"},
               {{"TALLY_COORDINATOR", fmt::format("127.0.0.1:{}", unused_port())}});
  ASSERT_TRUE(crew.all_say("done"));
  for (const Rank rank : {0, 1}) {
    EXPECT_TRUE(crew[rank].exits(0));
    EXPECT_TRUE(crew[rank].complains("no coordinator at")) << crew[rank].transcript();
  }
}

TEST(CoordinatorEnd, IsCleanOnSigterm) {
  WatchedCrew crew({.crew = {.size = 1}});
  crew.coordinator().signal(SIGTERM);
  EXPECT_TRUE(crew.says("ends; the ranks work on"));
  EXPECT_TRUE(crew.coordinator().exits(0));
}

TEST(CoordinatorEnd, KilledCoordinatorLeavesNothingButItsStateFile) {
  WatchedCrew crew({.crew = {.size = 1}});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  ASSERT_TRUE(crew.status_has(R"("rank":0)"));
  const auto named = [&crew] {
    const auto jobs = group::local_jobs();
    return std::find(jobs.begin(), jobs.end(), crew.job()) != jobs.end();
  };
  EXPECT_TRUE(named());
  crew.coordinator().signal(SIGKILL);
  ASSERT_TRUE(crew.coordinator().wait_status().has_value());
  EXPECT_FALSE(named());
  EXPECT_TRUE(std::filesystem::is_empty(crew.crew().temp_folder()));
  EXPECT_TRUE(std::filesystem::exists(crew.state_file()));
  EXPECT_FALSE(std::filesystem::exists(crew.state_file() + ".new"));
  EXPECT_TRUE(net::Listener::bind({"127.0.0.1", crew.port()}).has_value());
}

TEST(CoordinatorEnd, StateFileOfAnotherJobIsNotTouched) {
  WatchedCrew crew({.crew = {.size = 1}});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  ASSERT_TRUE(crew.status_has(R"("rank":0)"));
  Child other({{TALLY_PROGRAM, "serve", "--coordinator", "--job", "another", "--size", "1",
                "--state-file", crew.state_file()},
               {}});
  EXPECT_TRUE(other.exits(2));
  EXPECT_TRUE(other.complains("is the state of job"));
}

}  // namespace
}  // namespace tally::process
