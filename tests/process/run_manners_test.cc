// `tally run` respects the processes, files and streams of the shell that starts it.
#include <algorithm>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/launched.h"

namespace tally::process {
namespace {

Child shell(const std::string& command) { return Child({.command = {"/bin/bash", "-c", command}}); }

TEST(RunManners, ProcessesOfTheShellThatBecameTheLauncherAreLeftAlone) {
  Child launcher = shell(fmt::format(
      "exec 3>&1 >/dev/null 2>&1; sleep 60 3>&- & echo $! >&3; setsid sleep 60 3>&- & echo $! >&3; "
      "exec {} run -n 2 -- true >&3",
      TALLY_PROGRAM));
  for (int i = 0; i < 2; ++i) {
    const auto line = launcher.line("");
    ASSERT_TRUE(line);
    if (i == 0) {
      EXPECT_TRUE(launcher.exits(0)) << launcher.transcript();
    }
    EXPECT_EQ(kill(std::stoi(*line), SIGKILL), 0) << *line;
  }
}

TEST(RunManners, ASlowReaderGetsTheWholeOutput) {
  const Folder folder;
  Child launcher =
      shell(fmt::format("exec {} run -n 1 -- seq 200000 > >(sleep 0.5; tail -1 > {}/last)",
                        TALLY_PROGRAM, folder.path()));
  EXPECT_TRUE(launcher.exits(0)) << launcher.transcript();
  const std::int64_t end = now_ms() + kPatience.count();
  const std::string path = folder.file("last");
  while (contents_of(path).empty() && now_ms() < end) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(contents_of(path), "[0] 200000\n");
}

TEST(RunManners, ClosedStreamsAreNotTakenForFiles) {
  const Folder folder;
  Child launcher = shell(fmt::format("exec {} run -n 2 --log-dir {} -- echo mine <&- >&- 2>&-",
                                     TALLY_PROGRAM, folder.path()));
  EXPECT_TRUE(launcher.exits(0));
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(contents_of(fmt::format("{}/rank-{}.log", folder.path(), rank)), "mine\n");
}

TEST(RunManners, LongLinesOfTwoRanksComeWhole) {
  Launched job({"-n", "2", "--", "sh", "-c", "head -c 1048576 /dev/zero | tr '\\0' x; echo"});
  EXPECT_TRUE(job.tally().exits(0));
  const std::string text = job.tally().output();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

}  // namespace
}  // namespace tally::process
