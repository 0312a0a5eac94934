// The limits of engine=mpi, under the real launchers.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/child.h"
#include "process/mpi/installed.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

class MpiFailures : public testing::TestWithParam<std::string> {
 protected:
  Child::Options worker(int ranks, const std::string& scenario, Variables variables = {}) const {
    std::vector<std::string> command = {"/usr/bin/env", "mpirun." + GetParam()};
    if (GetParam() == "openmpi")
      command.insert(command.end(), {"--oversubscribe", "--allow-run-as-root"});
    command.insert(command.end(), {"-n", std::to_string(ranks), TALLY_MPI_WORKER, scenario});
    variables.emplace("TALLY_ENGINE", "mpi");
    variables.emplace("TALLY_MPI_INSIDE", "mpi");
    // MPI libraries keep memory to the end, which a sanitizer reports as a leak.
    variables.emplace("ASAN_OPTIONS", "detect_leaks=0");
    return {.command = command, .variables = variables};
  }
};

std::string name_of_mpi(const testing::TestParamInfo<std::string>& info) { return info.param; }

TEST_P(MpiFailures, AtADeadlineMpiCannotTellWhichRankIsMissingAndTheWholeJobIsOver) {
  Child run(worker(2, "stay-away"));
  const auto first = run.line("rank 0 allreduce");
  ASSERT_TRUE(first.has_value());
  EXPECT_THAT(*first, HasSubstr("kTimeout"));
  EXPECT_THAT(*first, HasSubstr("MPI cannot tell which rank is missing"));
  const std::string reason = first->substr(first->find("kTimeout"));
  EXPECT_EQ(run.line("rank 0 again"), "rank 0 again: " + reason);
  EXPECT_EQ(run.line("rank 0 elsewhere"), "rank 0 elsewhere: " + reason);
  // Rank 0 exits without MPI_Finalize, and the launcher ends the other rank, which sleeps.
  EXPECT_TRUE(run.complains("no longer uses MPI and will not finalise it"));
  EXPECT_TRUE(run.wait_status().has_value());
}

TEST_P(MpiFailures, AReceiveWithoutASenderIsCancelledAndTheJobGoesOn) {
  Child run(worker(2, "receive-in-vain"));
  const auto receive = run.line("rank 0 receive");
  ASSERT_TRUE(receive.has_value());
  EXPECT_THAT(*receive, HasSubstr("kTimeout"));
  EXPECT_EQ(run.line("rank 0 world"), "rank 0 world: ok");
  EXPECT_TRUE(run.exits(0));
}

TEST_P(MpiFailures, MessagesOfAnotherLengthAreAMismatch) {
  Child run(worker(2, "other-counts"));
  const auto shorter = run.line("rank 0 5 for 7");
  ASSERT_TRUE(shorter.has_value());
  EXPECT_THAT(*shorter, HasSubstr("kMismatch (rank 1): rank 1 sent 5 elements, 7 were expected"));
  const auto longer = run.line("rank 0 9 for 7");
  ASSERT_TRUE(longer.has_value());
  EXPECT_THAT(*longer, HasSubstr("kMismatch"));
  EXPECT_TRUE(run.wait_status().has_value());
}

TEST_P(MpiFailures, ReformSaysThatALostRankEndsAnMpiJob) {
  Child run(worker(2, "reform"));
  const auto outcome = run.line("rank 0 reform");
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(*outcome, HasSubstr("kInvalid"));
  EXPECT_THAT(*outcome, HasSubstr("a lost rank ends an MPI job"));
  EXPECT_TRUE(run.exits(0));
}

TEST_P(MpiFailures, AKilledRankEndsTheJob) {
  Child run(worker(3, "die"));
  ASSERT_TRUE(run.line("rank 1 here").has_value());
  const auto status = run.wait_status();
  ASSERT_TRUE(status.has_value());
  EXPECT_NE(*status, 0);
}

TEST_P(MpiFailures, RanksThatContradictMpiAreRefused) {
  Child run(worker(1, "reform", {{"RANK", "2"}, {"WORLD_SIZE", "4"}}));
  const auto line = run.line("cannot join");
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, HasSubstr("this is rank 2 of 4, but MPI has it as rank 0 of 1"));
  EXPECT_TRUE(run.wait_status().has_value());
}

TEST_P(MpiFailures, WithoutThePluginTheErrorNamesWhatIsMissing) {
  Child run(worker(1, "reform", {{"TALLY_PLUGIN_DIR", "/nowhere"}}));
  const auto line = run.line("cannot join");
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, HasSubstr("libtally_mpi_" + GetParam() + ".so"));
  EXPECT_THAT(*line, HasSubstr("Debian: "));
  EXPECT_TRUE(run.wait_status().has_value());
}

INSTANTIATE_TEST_SUITE_P(Process, MpiFailures, testing::ValuesIn(installed_mpis()), name_of_mpi);

}  // namespace
}  // namespace tally::process
