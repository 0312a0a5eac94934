// The same program under the mpiruns of Open MPI and MPICH, and with a PMIx server alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/under_launcher.h"

namespace tally::process {
namespace {

using Variables = std::map<std::string, std::string>;

std::vector<std::string> open_mpi(int size, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{"mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "-n",
                                   std::to_string(size)};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<std::string> mpich(int size, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{"mpirun.mpich", "-n", std::to_string(size)};
  command.insert(command.begin() + 1, more.begin(), more.end());
  return command;
}

// A remote shell that runs commands on this machine, so that mpirun starts daemons for several
// hosts. Each host has its own folder for temporary files, because daemons that share one remove
// each other's.
std::string local_remote_shell(const Folder& folder) {
  return script(folder, "remote_shell",
                fmt::format("export TMPDIR={}/$1\nmkdir -p $TMPDIR\nshift\nexec sh -c \"$*\"",
                            folder.path()));
}

class OpenMpi : public testing::Test {
 protected:
  void SetUp() override { TALLY_NEED_PROGRAM("mpirun.openmpi", "openmpi-bin"); }
};

TEST_F(OpenMpi, RanksOfOneHostAddUp) { EXPECT_TRUE(HelloJob(open_mpi(4)).adds_up(4, "Open MPI")); }

TEST_F(OpenMpi, OneRankIsAJobOfOne) { EXPECT_TRUE(HelloJob(open_mpi(1)).adds_up(1, "Open MPI")); }

TEST_F(OpenMpi, TwoJobsAtOnceDoNotMix) {
  HelloJob first(open_mpi(3));
  HelloJob second(open_mpi(2));
  EXPECT_TRUE(first.adds_up(3, "Open MPI"));
  EXPECT_TRUE(second.adds_up(2, "Open MPI"));
}

TEST_F(OpenMpi, RanksMeetThroughPmixIfAskedTo) {
  EXPECT_TRUE(
      HelloJob(open_mpi(4), with_foreign_library({{"TALLY_MEET", "pmix"}})).adds_up(4, "Open MPI"));
}

TEST_F(OpenMpi, RanksOfSeveralHostsMeetThroughPmix) {
  const Folder folder;
  const auto command =
      open_mpi(4, {"--host", "hosta:2,hostb:2", "--mca", "plm_rsh_agent",
                   local_remote_shell(folder), "--mca", "plm_rsh_no_tree_spawn", "1", "-x",
                   "ASAN_OPTIONS", "-x", "TSAN_OPTIONS", "-x", "TALLY_JOIN_TIMEOUT"});
  EXPECT_TRUE(HelloJob(command, with_foreign_library()).adds_up(4, "Open MPI"));
}

TEST_F(OpenMpi, PmixServerAloneIsEnough) {
  EXPECT_TRUE(HelloJob(open_mpi(4, {program_path("env"), "-u", "OMPI_COMM_WORLD_RANK", "-u",
                                    "OMPI_COMM_WORLD_SIZE"}),
                       with_foreign_library())
                  .adds_up(4, "PMIx"));
}

TEST_F(OpenMpi, MpiOfTheProgramCanBeginAfterAJobThatMetThroughPmix) {
  for (const char* way : {"pmix", "board"}) {
    HelloJob ranks(open_mpi(2), with_foreign_library({{"TALLY_MEET", way}}),
                   {TALLY_MPI_BESIDE, "libmpi.so.40"});
    EXPECT_TRUE(ranks.child().line("both")) << ranks.child().transcript();
    EXPECT_TRUE(ranks.child().line("both")) << ranks.child().transcript();
    EXPECT_TRUE(ranks.child().exits(0)) << ranks.child().transcript();
  }
}

class Mpich : public testing::Test {
 protected:
  void SetUp() override { TALLY_NEED_PROGRAM("mpirun.mpich", "mpich"); }
};

TEST_F(Mpich, RanksOfOneHostAddUp) { EXPECT_TRUE(HelloJob(mpich(4)).adds_up(4, "Hydra")); }

TEST_F(Mpich, TwoJobsAtOnceDoNotMix) {
  HelloJob first(mpich(3));
  HelloJob second(mpich(2));
  EXPECT_TRUE(first.adds_up(3, "Hydra"));
  EXPECT_TRUE(second.adds_up(2, "Hydra"));
}

TEST_F(Mpich, RanksMeetThroughPmiIfAskedTo) {
  EXPECT_TRUE(HelloJob(mpich(4), {{"TALLY_MEET", "pmi"}}).adds_up(4, "Hydra"));
}

TEST_F(Mpich, RanksOfSeveralHostsMeetThroughPmi) {
  EXPECT_TRUE(HelloJob(mpich(4, {"-launcher", "fork", "-hosts", "localhost,127.0.0.1"}))
                  .adds_up(4, "Hydra"));
}

// MPICH does not work with the thread sanitizer in its process.
#if !defined(TALLY_SANITIZED_THREAD)
TEST_F(Mpich, MpiOfTheProgramCanBeginAfterAJobThatMetThroughPmi) {
  for (const char* way : {"pmi", "board"}) {
    HelloJob ranks(mpich(2), with_foreign_library({{"TALLY_MEET", way}}),
                   {TALLY_MPI_BESIDE, "libmpich.so.12"});
    EXPECT_TRUE(ranks.child().exits(0)) << ranks.child().transcript();
    // Hydra may print the two words on one line.
    const std::string said = ranks.child().transcript();
    EXPECT_NE(said.find("both"), said.rfind("both")) << said;
  }
}
#endif

}  // namespace
}  // namespace tally::process
