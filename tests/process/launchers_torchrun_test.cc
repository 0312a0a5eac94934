// The same program under torchrun, with variables only, and without any launcher.
#include <gtest/gtest.h>

#include "process/under_launcher.h"

namespace tally::process {
namespace {

// The torchrun of PyTorch 1.13 fails with Python 3.11 unless the options about redirection are
// given; for ranks below 9 they change nothing.
std::vector<std::string> torchrun(int port, const std::vector<std::string>& more) {
  std::vector<std::string> command{
      "/usr/bin/torchrun", "--no_python",       "--redirects", "9:1", "--tee", "9:1",
      "--master_port",     std::to_string(port)};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

class Torchrun : public testing::Test {
 protected:
  void SetUp() override { TALLY_NEED_PROGRAM("torchrun", "python3-torch"); }
};

TEST_F(Torchrun, RanksOfOneHostAddUp) {
  EXPECT_TRUE(HelloJob(torchrun(unused_port(), {"--nproc_per_node", "4"})).adds_up(4, "torchrun"));
}

// Each agent starts its own ranks and prints only their output.
TEST_F(Torchrun, RanksOfTwoAgentsMeetBesideTheAgentsPort) {
  const int port = unused_port();
  const auto agent = [port](const char* node) {
    return torchrun(port, {"--master_addr", "127.0.0.1", "--nnodes", "2", "--node_rank", node,
                           "--nproc_per_node", "2"});
  };
  HelloJob first(agent("0"));
  HelloJob second(agent("1"));
  EXPECT_TRUE(first.child().line("sum over 4 ranks: 10")) << first.child().transcript();
  EXPECT_TRUE(first.child().exits(0)) << first.child().transcript();
  EXPECT_TRUE(second.child().exits(0)) << second.child().transcript();
}

TEST(NoLauncher, ProgramAloneIsAJobOfOne) {
  EXPECT_TRUE(HelloJob({TALLY_HELLO_PROGRAM}, {}, {}).adds_up(1, "none"));
}

// The environment of the pods of deploy/kubernetes/job.yaml.
TEST(NoLauncher, PodsOfAnIndexedJobAddUp) {
  const std::string port = std::to_string(unused_port());
  const auto pod = [&port](int index) {
    return std::map<std::string, std::string>{{"JOB_COMPLETION_INDEX", std::to_string(index)},
                                              {"WORLD_SIZE", "2"},
                                              {"MASTER_ADDR", "localhost"},
                                              {"MASTER_PORT", port}};
  };
  HelloJob first({TALLY_HELLO_PROGRAM}, pod(0), {});
  HelloJob second({TALLY_HELLO_PROGRAM}, pod(1), {});
  EXPECT_TRUE(first.child().line("rank 0 of 2")) << first.child().transcript();
  EXPECT_TRUE(first.child().line("sum over 2 ranks: 3")) << first.child().transcript();
  EXPECT_TRUE(second.child().line("rank 1 of 2")) << second.child().transcript();
  EXPECT_TRUE(first.child().exits(0) && second.child().exits(0));
}

TEST(NoLauncher, HalfAnEnvironmentIsAnErrorThatNamesTheRest) {
  HelloJob alone({TALLY_HELLO_PROGRAM}, {{"OMPI_COMM_WORLD_RANK", "0"}}, {});
  EXPECT_TRUE(alone.child().complains("OMPI_COMM_WORLD_SIZE is not set"));
  EXPECT_TRUE(alone.child().exits(1));
}

}  // namespace
}  // namespace tally::process
