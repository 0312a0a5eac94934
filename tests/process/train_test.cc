// `tally train linear` as users run it: processes that it starts itself.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// 0 if it is gone.
pid_t parent_of(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');  // "PID (NAME) STATE PARENT ..."
  if (name_end == std::string::npos) return 0;
  std::istringstream words(stat.substr(name_end + 1));
  std::string state;
  pid_t parent = 0;
  words >> state >> parent;
  return parent;
}

// The descendant of `tally` that has this rank; -1 if there is none. Between them stands the agent.
pid_t worker_of(pid_t tally, Rank rank) {
  const std::string wanted = "RANK=" + std::to_string(rank);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string path = entry.path();
    if (path.find_first_not_of("0123456789", sizeof("/proc")) != std::string::npos) continue;
    const pid_t pid = std::stoi(path.substr(path.rfind('/') + 1));
    if (parent_of(parent_of(pid)) != tally) continue;
    std::istringstream environment(contents(path + "/environ"));
    for (std::string variable; std::getline(environment, variable, '\0');)
      if (variable == wanted) return pid;
  }
  return -1;
}

class Train : public testing::Test {
 protected:
  Child start(std::vector<std::string> options) {
    std::vector<std::string> command{TALLY_PROGRAM, "train", "linear", "--workers", "3"};
    command.insert(command.end(), options.begin(), options.end());
    return Child({.command = command, .variables = {{"TMPDIR", folder_.path()}}});
  }

  const Folder folder_;
};

TEST_F(Train, LinearEndsWithWeightsThatMatch) {
  Child tally = start({"--samples", "2000", "--features", "4"});
  EXPECT_TRUE(tally.line("largest difference")) << tally.transcript();
  EXPECT_TRUE(tally.exits(0)) << tally.transcript();
  EXPECT_NE(tally.transcript().find("the learned weights match the closed-form solution"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Train, KilledWorkerEndsItAndIsNamed) {
  // A rate at which it would go on for hours.
  Child tally =
      start({"--samples", "2000", "--features", "4", "--rate", "1e-9", "--steps", "100000000"});
  ASSERT_TRUE(tally.line("  step")) << tally.transcript();
  const pid_t victim = worker_of(tally.pid(), 1);
  ASSERT_GT(victim, 0);
  const std::int64_t killed_ms = now_ms();
  kill(victim, SIGKILL);
  EXPECT_TRUE(tally.exits(137)) << tally.transcript();
  EXPECT_LE(now_ms() - killed_ms, 1000 + kLossTime.count());
  EXPECT_TRUE(tally.complains("tally train linear: rank 1 on ")) << tally.transcript();
  for (const char* rank : {"rank 0", "rank 2"})
    EXPECT_TRUE(tally.complains(std::string(rank) + ": kPeerLost (rank 1)")) << tally.transcript();
  EXPECT_EQ(worker_of(tally.pid(), 0), -1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace tally::process
