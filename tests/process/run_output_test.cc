// Output of the ranks of `tally run`: prefixes, long and binary output, log files, silence.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/launched.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(RunOutput, LinesOfRanksAreNeverMixed) {
  Launched job({"-n", "4", "--", "sh", "-c",
                "i=0; while [ $i -lt 200 ]; do printf '%s' \"$RANK \"; echo \"$RANK line $i\"; "
                "i=$((i+1)); done"});
  int lines = 0;
  for (auto line = job.tally().line(""); line; line = job.tally().line("")) {
    ASSERT_GE(line->size(), 12U) << *line;
    const char rank = (*line)[1];
    EXPECT_EQ(line->substr(0, 12), fmt::format("[{0}] {0} {0} line", rank)) << *line;
    ++lines;
  }
  EXPECT_EQ(lines, 800);
  EXPECT_TRUE(job.tally().exits(0));
}

TEST(RunOutput, EachStreamGoesToItsOwn) {
  Launched job({"-n", "1", "--", "sh", "-c", "echo out; echo err >&2; printf unended"});
  EXPECT_EQ(job.tally().line("[0] out"), "[0] out");
  EXPECT_EQ(job.tally().line(""), "[0] unended");
  EXPECT_TRUE(job.tally().exits(0));
  EXPECT_EQ(job.tally().errors(), "[0] err\n");
}

// The ranks end when the test has seen their progress.
TEST(RunOutput, ALineOfProgressAppearsBeforeItEnds) {
  const Folder folder;
  Launched job({"-n", "2", "--", "sh", "-c",
                fmt::format("printf \"10 of $RANK\\r\" >&2; until [ -e {}/seen ]; do sleep 0.02; "
                            "done; printf \"20 of $RANK\\n\" >&2",
                            folder.path())});
  EXPECT_TRUE(job.tally().complains("[0] 10 of 0\r"));
  EXPECT_TRUE(job.tally().complains("[1] 10 of 1\r"));
  std::ofstream(folder.file("seen")) << "";
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  EXPECT_THAT(job.tally().errors(), HasSubstr("[0] 20 of 0\n"));
  EXPECT_THAT(job.tally().errors(), HasSubstr("[1] 20 of 1\n"));
}

// script(1) gives the launcher a terminal. The rank ends when its text was seen.
TEST(RunOutput, OnATerminalALineThatDoesNotEndIsShown) {
  const Folder folder;
  const std::string rank =
      fmt::format("printf begun; until [ -e {}/seen ]; do sleep 0.02; done", folder.path());
  const std::string command = fmt::format(
      "script -eqc '{} run -n 1 -- sh -c \"{}\"' /dev/null | {{ read -r -N 9 text; echo "
      "\"saw $text\"; touch {}/seen; cat > {}/rest; }}",
      TALLY_PROGRAM, rank, folder.path(), folder.path());
  Child shell({.command = {"/bin/bash", "-c", command}, .variables = {{"NO_COLOR", "1"}}});
  EXPECT_EQ(shell.line("saw"), "saw [0] begun");
  EXPECT_TRUE(shell.exits(0)) << shell.transcript();
  EXPECT_EQ(contents_of(folder.file("rest")), "\r\n");
}

TEST(RunOutput, ALineOfAMebibyteComesWholeAndIsLoggedByteForByte) {
  const Folder folder;
  Launched job(
      {"-n", "2", "--log-dir", folder.path() + "/logs", "--", "sh", "-c",
       "[ $RANK = 1 ] || exit 0; head -c 1048576 /dev/zero | tr '\\0' x; echo; echo after"});
  const auto line = job.tally().line("[1] xxx");
  ASSERT_TRUE(line);
  EXPECT_EQ(*line, "[1] " + std::string(kMebibyte, 'x'));
  EXPECT_EQ(job.tally().line("[1]"), "[1] after");
  EXPECT_TRUE(job.tally().exits(0));
  EXPECT_EQ(contents_of(folder.path() + "/logs/rank-1.log"),
            std::string(kMebibyte, 'x') + "\nafter\n");
  EXPECT_EQ(contents_of(folder.path() + "/logs/rank-0.log"), "");
}

TEST(RunOutput, BinaryOutputIsLoggedByteForByte) {
  const Folder folder;
  std::string bytes;
  for (std::size_t i = 0; i < 300000; ++i) bytes += static_cast<char>(i * 7919 / 13);
  std::ofstream(folder.path() + "/bytes", std::ios::binary) << bytes;
  Launched job({"-n", "3", "--log-dir", folder.path(), "--", "cat", folder.path() + "/bytes"});
  EXPECT_TRUE(job.tally().exits(0));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(contents_of(fmt::format("{}/rank-{}.log", folder.path(), rank)) == bytes) << rank;
}

TEST(RunOutput, ARankThatClosesItsOutputGoesOn) {
  Launched job({"-n", "2", "--", "sh", "-c",
                fmt::format("exec >&- 2>&-; exec {} sums 3 >/dev/null", TALLY_WORKER_PROGRAM)});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
}

// As in `tally run ... | head -1`.
TEST(RunOutput, AReaderThatEndsDoesNotEndTheJob) {
  const Folder folder;
  const std::string command =
      fmt::format("{{ {} run -n 1 -- sh -c 'seq 20000; echo done > {}/done'; }} | head -1",
                  TALLY_PROGRAM, folder.path());
  Child shell({.command = {"/bin/sh", "-c", command}});
  EXPECT_TRUE(shell.exits(0)) << shell.transcript();
  EXPECT_EQ(contents_of(folder.path() + "/done"), "done\n");
}

// The reader waits longer than the lease: no output is lost, and the hosts do not give each other
// up.
TEST(RunOutput, AReaderThatWaitsGetsEverything) {
  const Folder folder;
  const double lease_s = std::stod(scaled_seconds(seconds(1)));
  const std::string command = fmt::format(
      "{} run --hosts a,b --remote-shell {} --lease {} -- sh -c 'seq 400000' | (sleep {}; cat > "
      "{}/out)",
      TALLY_PROGRAM, pretending_shell(folder), lease_s, 2 * lease_s, folder.path());
  Child shell({.command = {"/bin/sh", "-c", command}});
  EXPECT_TRUE(shell.exits(0)) << shell.transcript();
  const std::string text = contents_of(folder.path() + "/out");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 800000);
  EXPECT_EQ(shell.errors(), "");
}

TEST(RunOutput, ARankThatNeverStopsWritingHidesNoOther) {
  Launched job({"-n", "3", "--grace", "0.2", "--", "sh", "-c",
                "[ $RANK = 1 ] && { sleep 0.3; echo over; exit 6; }; exec yes"});
  EXPECT_TRUE(job.tally().exits(6)) << job.tally().errors();
  EXPECT_TRUE(job.tally().line("[1] over"));
  EXPECT_THAT(job.tally().errors(), HasSubstr("rank 1 on "));
}

TEST(RunOutput, ARankWhoseChildNeverStopsWritingHasEnded) {
  Launched job({"-n", "1", "--", "sh", "-c", "yes & sleep 0.3; exit 6"});
  EXPECT_TRUE(job.tally().exits(6)) << job.tally().errors();
}

// The test does not read the output, and interrupts the job.
TEST(RunOutput, AReaderThatWaitsDoesNotKeepTheJobFromEnding) {
  Launched job({"-n", "2", "--grace", "0.2", "--", "yes"});
  ASSERT_TRUE(job.await("yes", 2));
  std::this_thread::sleep_for(milliseconds(500));
  job.tally().signal(SIGINT);
  EXPECT_TRUE(job.nobody_left());
  EXPECT_TRUE(job.tally().exits(130));
}

TEST(RunOutput, QuietRanksAreShownOnlyWhenTheyFail) {
  const Folder folder;
  Launched job({"-n", "3", "--quiet-ranks", "--", "sh", "-c",
                fmt::format("seq -f \"line %g of $RANK\" 100; touch {0}/$RANK; until [ -e {0}/0 -a "
                            "-e {0}/1 ]; do sleep 0.02; done; sleep 0.2; [ $RANK = 2 ] && exit 4; "
                            "exec sleep 100",
                            folder.path())});
  EXPECT_TRUE(job.tally().exits(4)) << job.tally().transcript();
  const std::string text = job.tally().transcript();
  EXPECT_THAT(text, HasSubstr("[0] line 1 of 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("of 1\n")));
  EXPECT_THAT(text, HasSubstr("its last lines:\n  | line 51 of 2\n"));
  EXPECT_THAT(text, HasSubstr("  | line 100 of 2\n"));
}

TEST(RunOutput, AFolderForLogsThatCannotBeMadeIsAnError) {
  Launched job({"-n", "1", "--log-dir", "/proc/nothing/logs", "--", "true"});
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("cannot make /proc/nothing/logs"));
}

}  // namespace
}  // namespace tally::process
