// Ranks that keep the others waiting, and the coordinator's report about them.
#include <memory>

#include <gtest/gtest.h>

#include "process/launched.h"
#include "process/watched_crew.h"

namespace tally::process {
namespace {

class WatchedStall : public testing::TestWithParam<std::string> {};

TEST_P(WatchedStall, CulpritIsNamedWithItsLastOperationAndItsStack) {
  WatchedCrew crew({.crew = {.transport = GetParam()}, .stall_warning = scaled(milliseconds(500))});
  ASSERT_TRUE(crew.start_all({"compute"}));
  // On a loaded machine a rank may also be late in the barrier before it.
  const auto line = crew.coordinator().line_with("is missing in #1 ");
  ASSERT_TRUE(line.has_value()) << crew.coordinator().transcript();
  for (const char* part :
       {"rank 2 (host ", "is missing in #1 allreduce sum of 5000 float32",
        "ranks 0, 1 have waited for", "rank 2 has been computing for",
        "its last operation was #0 barrier", "its stack: ", "compute_until_told"})
    EXPECT_NE(line->find(part), std::string::npos) << part << " is not in: " << *line;
  EXPECT_TRUE(crew.status_has(R"("stall":"rank 2 (host)"));
  crew[2].tell("go on");
  EXPECT_TRUE(crew.says("the stall is over"));
  EXPECT_TRUE(crew.crew().all_say("done"));
  // The coordinator reports a stall only once.
  EXPECT_FALSE(crew.coordinator().line_with("is missing in #1 ", milliseconds(0)).has_value());
}

TEST_P(WatchedStall, MismatchedOperationsAreNamed) {
  WatchedCrew crew({.crew = {.transport = GetParam(), .size = 2}});
  crew.start(0, {"call", "allreduce", "10", "float32"});
  crew.start(1, {"call", "allreduce", "20", "float32"});
  const auto line = crew.coordinator().line_with("ranks disagree in #0");
  ASSERT_TRUE(line.has_value()) << crew.coordinator().transcript();
  for (const char* part :
       {"rank 0 called allreduce sum of 10 float32", "rank 1 called allreduce sum of 20 float32"})
    EXPECT_NE(line->find(part), std::string::npos) << part << " is not in: " << *line;
}

// The operation ends at a different moment between two heartbeats in each job, and all ranks leave
// then.
TEST(WatchedStallEnd, IsSilentAboutAnOperationThatHasEnded) {
  std::vector<std::unique_ptr<Launched>> jobs;
  for (const char* time : {"1100", "1400", "1700"}) {
    jobs.push_back(std::make_unique<Launched>(
        std::vector<std::string>{"-n", "3", "--stall-warning", "1", "--heartbeat", "0.5", "--",
                                 TALLY_WORKER_PROGRAM, "compute-for", time}));
  }
  for (const auto& job : jobs) {
    EXPECT_TRUE(job->tally().exits(0)) << job->tally().transcript();
    for (const char* wrong : {"has left the job", "it is slow"})
      EXPECT_EQ(job->tally().transcript().find(wrong), std::string::npos)
          << job->tally().transcript();
  }
}

TEST(WatchedJoining, RanksThatHaveNotComeAreNamed) {
  WatchedCrew crew({.stall_warning = milliseconds(500)});
  crew.start(0, {"sums", "1"});
  EXPECT_TRUE(crew.says("ranks 1, 2 have not come"));
  EXPECT_TRUE(crew.status_has(R"({"rank":0,"state":"joining","text":"joining for )"));
  EXPECT_TRUE(crew.status_has(R"("stall":"rank 0 has been joining for )"));
  crew.start(2, {"sums", "1"});
  const auto line = crew.coordinator().line_with("ranks 0, 2 have been joining for");
  ASSERT_TRUE(line.has_value()) << crew.coordinator().transcript();
  EXPECT_NE(line->find(": rank 1 has not come"), std::string::npos) << *line;
  crew.start(1, {"sums", "1"});
  EXPECT_TRUE(crew.says("the job goes on: the stall is over"));
  EXPECT_TRUE(crew.crew().all_say("done"));
}

// The rank's process exits with 0, so that only the missing registration shows its end.
TEST(WatchedJoining, RankThatEndsBeforeItJoinsIsNamed) {
  Launched job({"-n", "3", "--stall-warning", "0.5", "--heartbeat", "0.2", "--env",
                "TALLY_JOIN_TIMEOUT=" + scaled_whole_seconds(seconds(2)), "--", "sh", "-c",
                "test $RANK = 1 || exec " TALLY_WORKER_PROGRAM " sums 1"});
  EXPECT_TRUE(job.tally().complains(": rank 1 has not come")) << job.tally().transcript();
  EXPECT_TRUE(job.tally().wait_status().has_value());
  EXPECT_EQ(job.tally().transcript().find("the stall is over"), std::string::npos)
      << job.tally().transcript();
}

INSTANTIATE_TEST_SUITE_P(Process, WatchedStall, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
