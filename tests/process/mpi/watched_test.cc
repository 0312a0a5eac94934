// A coordinator and ranks with engine=mpi, under the real launchers.
#include <csignal>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/mpi/installed.h"
#include "process/watched_crew.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;

// The launcher, and the way in which ranks reach each other: "mpi", "shm" on one host, "tiers" of
// two hosts.
class MpiWatched : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static const std::string& launcher() { return std::get<0>(GetParam()); }
  static const std::string& way() { return std::get<1>(GetParam()); }

  Child::Options job(const WatchedCrew& crew, const std::string& scenario) const {
    std::vector<std::string> command = {"/usr/bin/env", "mpirun." + launcher()};
    const auto add = [&command](const std::vector<std::string>& words) {
      command.insert(command.end(), words.begin(), words.end());
    };
    if (launcher() == "openmpi") add({"--oversubscribe", "--allow-run-as-root"});
    if (way() == "tiers") {
      add({"-n", "2", "/usr/bin/env", "TALLY_HOST_LABEL=one", TALLY_MPI_WORKER, scenario, end_});
      add({":", "-n", "1", "/usr/bin/env", "TALLY_HOST_LABEL=two", TALLY_MPI_WORKER, scenario,
           end_});
    } else {
      add({"-n", std::to_string(kRanks), TALLY_MPI_WORKER, scenario, end_});
    }
    std::map<std::string, std::string> variables = crew.variables();
    variables["TALLY_ENGINE"] = "mpi";
    variables["TALLY_MPI_INSIDE"] = way() == "mpi" ? "mpi" : "shm";
    // MPI libraries keep memory to the end, which a sanitizer reports as a leak.
    variables["ASAN_OPTIONS"] = "detect_leaks=0";
    return {.command = command, .variables = variables};
  }
  void end_computation() const { write_file(end_, ""); }

 private:
  const Folder folder_;
  const std::string end_ = folder_.file("end");  // the last rank computes until it exists
};

TEST_P(MpiWatched, CulpritIsNamedWithItsLastOperationAndItsStack) {
  WatchedCrew crew({.crew = {.size = kRanks}, .stall_warning = milliseconds(500)});
  Child run(job(crew, "compute"));
  // On a loaded machine a rank may also be late in the barrier before it.
  const auto line = crew.coordinator().line_with("allreduce sum of 50000 float32");
  ASSERT_TRUE(line.has_value()) << crew.coordinator().transcript() << run.transcript();
  for (const char* part :
       {"rank 2 (host ", "is missing in", "allreduce sum of 50000 float32",
        "ranks 0, 1 have waited for", "rank 2 has been computing for", "its last operation was #",
        " barrier", "its stack: ", "compute_until_exists"})
    EXPECT_THAT(*line, HasSubstr(part));
  // In an operation by tiers it is unknown which rank the others wait for.
  const std::string state = way() == "tiers" ? "operating" : "waiting";
  EXPECT_TRUE(crew.status_has(fmt::format(R"({{"rank":0,"state":"{}")", state)));
  EXPECT_TRUE(crew.status_has(fmt::format(R"({{"rank":1,"state":"{}")", state)));
  EXPECT_TRUE(crew.status_has(R"({"rank":2,"state":"computing")"));
  EXPECT_TRUE(crew.status_has(R"("step":1)"));
  EXPECT_THAT(crew.tally({"inspect", "trace", crew.job()}), HasSubstr("allreduce sum of 50000"));
  end_computation();
  EXPECT_TRUE(crew.says("the stall is over"));
  EXPECT_TRUE(run.exits(0)) << run.transcript();
  EXPECT_TRUE(crew.status_has(R"({"rank":1,"state":"left")"));
}

// An operation of a split over several hosts is visible only as the operations of its parts.
class MpiWatchedSplit : public MpiWatched {};

TEST_P(MpiWatchedSplit, CulpritIsNamedByItsRankInTheJob) {
  WatchedCrew crew({.crew = {.size = kRanks}, .stall_warning = milliseconds(500)});
  Child run(job(crew, "compute-in-split"));
  const auto line = crew.coordinator().line_with("is missing in");
  ASSERT_TRUE(line.has_value()) << crew.coordinator().transcript() << run.transcript();
  for (const char* part : {"rank 2 (host ", "allreduce sum of 50000 float32 on world/0",
                           "ranks 0, 1 have waited for", "rank 2 has been computing for"})
    EXPECT_THAT(*line, HasSubstr(part));
  end_computation();
  EXPECT_TRUE(run.exits(0)) << run.transcript();
}

// The operations have no deadline, so that only the coordinator can end them.
TEST_P(MpiWatched, LostRankEndsOperations) {
  WatchedCrew crew({.crew = {.size = kRanks}, .lost_after = scaled(seconds(1))});
  Child run(job(crew, "freeze"));
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_TRUE(crew.says("has joined"));
  run.tell("go on");
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(run.line_with(" again: ").has_value()) << run.transcript();
  for (const char* line : {"rank 0 sum: kPeerLost (rank 2): the coordinator says: ",
                           "rank 1 sum: kPeerLost (rank 2): the coordinator says: ",
                           "rank 0 again: kPeerLost (rank 2)", "rank 1 again: kPeerLost (rank 2)"})
    EXPECT_THAT(run.output(), HasSubstr(line));
  // The launcher ends its ranks, the stopped one too.
  run.signal(SIGTERM);
  EXPECT_TRUE(run.wait_status().has_value());
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<std::string, std::string>>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Process, MpiWatched,
                         testing::Combine(testing::ValuesIn(installed_mpis()),
                                          testing::Values("mpi", "shm", "tiers")),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(Process, MpiWatchedSplit,
                         testing::Combine(testing::ValuesIn(installed_mpis()),
                                          testing::Values("mpi", "shm")),
                         name_of_case);

}  // namespace
}  // namespace tally::process
