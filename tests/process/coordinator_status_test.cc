// `tally status` and `tally inspect trace` of a running job.
#include <csignal>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/watched_crew.h"

namespace tally::process {
namespace {

class WatchedStatus : public testing::TestWithParam<std::string> {};

TEST_P(WatchedStatus, ShowsTheStateOfEachRank) {
  WatchedCrew crew({.crew = {.transport = GetParam()}});
  ASSERT_TRUE(crew.start_all({"wait"}));
  EXPECT_TRUE(crew.status_has(R"({"rank":0,"state":"waiting")"));
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"waiting")"));
  EXPECT_TRUE(crew.status_has(R"({"rank":2,"state":"computing")"));
  EXPECT_TRUE(crew.status_has(R"("operation":"#1 allreduce sum of 5000 float32")"));
  EXPECT_TRUE(crew.status_has(R"("waits_for":[2])"));
  EXPECT_TRUE(crew.status_has(R"("last_operation":"#0 barrier")"));
  EXPECT_TRUE(crew.status_has(fmt::format(R"("pid":{})", crew[2].pid())));
  const std::string table = crew.tally_until({"status", crew.job()}, {"waiting for rank 2"});
  EXPECT_NE(table.find(fmt::format("job {}, generation 1, 3 ranks", crew.job())), std::string::npos)
      << table;
  EXPECT_NE(table.find("waiting for rank 2"), std::string::npos) << table;
  crew[2].tell("go on");
  ASSERT_TRUE(crew.crew().all_say("done"));
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"left")"));
}

INSTANTIATE_TEST_SUITE_P(Process, WatchedStatus, testing::Values("shm", "tcp", "tls"), name_of);

TEST(StatusOfSteps, CountsStepsAndThroughput) {
  WatchedCrew crew({.crew = {.size = 2}});
  ASSERT_TRUE(crew.start_all({"steps", "2"}));
  std::string status;
  double throughput = 0;
  for (const std::int64_t end = now_ms() + kPatience.count(); throughput == 0 && now_ms() < end;) {
    const std::string key = "\"samples_per_second\":";
    status = crew.tally_until({"status", crew.job(), "--json"}, {key});
    const std::size_t at = status.find(key);
    if (at != std::string::npos) throughput = std::atof(status.c_str() + at + key.size());
  }
  // Steps of 10 samples that take 2 ms or more.
  EXPECT_GT(throughput, 0) << status;
  EXPECT_LE(throughput, 5500) << status;
  EXPECT_EQ(status.find("\"step\":0,"), std::string::npos) << status;
}

TEST(StatusFromElsewhere, NeedsTheSecret) {
  WatchedCrew crew({.crew = {.transport = "tls", .size = 2}});
  ASSERT_TRUE(crew.start_all({"wait"}));
  const std::string address = fmt::format("127.0.0.1:{}", crew.port());
  const std::string status = crew.tally({"status", "--json", "--coordinator", address,
                                         "--secret-file", crew.crew().secret_file(kSecretSeed)});
  EXPECT_NE(status.find(crew.job()), std::string::npos) << status;
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--secret-file", crew.crew().secret_file(8)}}) {
    std::vector<std::string> command{TALLY_PROGRAM, "status", "--coordinator", address};
    command.insert(command.end(), more.begin(), more.end());
    Child stranger({command, {}});
    EXPECT_TRUE(stranger.exits(1)) << stranger.transcript();
    EXPECT_TRUE(crew.says("was refused"));
  }
}

TEST(StatusFromElsewhere, MissingJobIsAnError) {
  Child child({{TALLY_PROGRAM, "status", "no-such-job-here"}, {}});
  EXPECT_TRUE(child.exits(1));
  EXPECT_TRUE(child.complains("no coordinator of a job no-such-job-here here"));
}

TEST(MergedTrace, MergesTheRecordersOfAllRanks) {
  WatchedCrew crew({.crew = {.transport = "tcp"}});
  ASSERT_TRUE(crew.start_all({"wait"}));
  ASSERT_TRUE(crew.status_has(R"({"rank":0,"state":"waiting")"));
  ASSERT_TRUE(crew.status_has(R"({"rank":1,"state":"waiting")"));
  const std::vector<std::string> lines{
      "0     world        #0 barrier", "1     world        #0 barrier",
      "2     world        #0 barrier", "0     world        #1 allreduce"};
  const std::string listing = crew.tally_until({"inspect", "trace", crew.job()}, lines);
  for (const std::string& line : lines) EXPECT_NE(listing.find(line), std::string::npos) << listing;
  EXPECT_EQ(listing.find("2     world        #1 allreduce"), std::string::npos) << listing;
  const std::string path = crew.state_file() + ".json";
  std::string json;
  for (const std::int64_t end = now_ms() + kPatience.count();
       json.find(R"("name":"rank 2")") == std::string::npos && now_ms() < end;) {
    crew.tally({"inspect", "trace", crew.job(), "--output", path});
    json = contents_of(path);
  }
  EXPECT_NE(json.find(R"("name":"rank 2")"), std::string::npos) << json;
}

TEST(MergedTrace, LeavesOutARankThatDoesNotAnswer) {
  WatchedCrew crew({});
  ASSERT_TRUE(crew.start_all({"wait"}));
  crew[1].stop();
  const std::string listing =
      crew.tally_until({"inspect", "trace", crew.job()}, {"0     world        #0 barrier"});
  EXPECT_NE(listing.find("0     world        #0 barrier"), std::string::npos) << listing;
  EXPECT_EQ(listing.find("1     world        #0 barrier"), std::string::npos) << listing;
  crew[1].signal(SIGCONT);
}

}  // namespace
}  // namespace tally::process
