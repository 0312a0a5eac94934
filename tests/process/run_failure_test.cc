// A rank of `tally run` fails, or the job takes too long: who is named, and what becomes of the
// others.
#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/launched.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using testing::Not;

// Rank 1 does `what`; the others would wait for long.
std::vector<std::string> when_rank_1(const std::string& what) {
  return {"-n", "3",  "--",
          "sh", "-c", "if [ $RANK = 1 ]; then echo last words; " + what + "; fi; exec sleep 100"};
}

TEST(RunFailure, TheFirstFailedRankIsNamedWithItsCodeAndLastLines) {
  Launched job(when_rank_1("exit 7"));
  EXPECT_TRUE(job.tally().exits(7)) << job.tally().transcript();
  const std::string errors = job.tally().transcript();
  EXPECT_THAT(errors, testing::ContainsRegex(
                          "tally run: rank 1 on [^ ]+ \\(pid [0-9]+\\) exited with code 7\n"));
  EXPECT_THAT(errors, HasSubstr("  | last words\n"));
  EXPECT_THAT(errors, Not(HasSubstr("after that")));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, ASignalIsNamedAndDecidesTheExitCode) {
  struct Case {
    const char* signal;
    const char* words;
    int code;
  };
  for (const Case& each : {Case{"KILL", "killed by signal 9 (SIGKILL)", 137},
                           Case{"SEGV", "killed by signal 11 (SIGSEGV)", 139},
                           Case{"TERM", "killed by signal 15 (SIGTERM)", 143}}) {
    Launched job(when_rank_1(fmt::format("ulimit -c 0; kill -{} $$", each.signal)));
    EXPECT_TRUE(job.tally().exits(each.code)) << job.tally().transcript();
    EXPECT_THAT(job.tally().transcript(), HasSubstr("tally run: rank 1 on "));
    EXPECT_THAT(job.tally().transcript(), HasSubstr(each.words));
  }
}

// The others notice the loss by themselves, within milliseconds, and exit with errors.
TEST(RunFailure, AKilledRankIsTheCauseAndNotThoseWhoLostIt) {
  for (int round = 0; round < 3; ++round) {
    Launched job(
        {"-n", "4", "--", "sh", "-c",
         fmt::format("[ $RANK = 2 ] && (sleep 0.3; kill -9 $$) & exec {} loop allreduce 1000",
                     TALLY_WORKER_PROGRAM)});
    EXPECT_TRUE(job.tally().exits(137)) << job.tally().transcript();
    EXPECT_TRUE(job.tally().complains("tally run: rank 2 on ")) << job.tally().transcript();
    EXPECT_THAT(job.tally().transcript(), HasSubstr("kPeerLost 2"));
  }
}

TEST(RunFailure, AStoppedRankIsTheCauseAndNotThoseWhoGaveItUp) {
  Launched job(
      {"-n", "3", "--heartbeat", "0.2", "--grace", "1", "--", "sh", "-c",
       fmt::format("[ $RANK = 2 ] && (sleep 1; kill -STOP $$) & exec {} loop allreduce 1000",
                   TALLY_WORKER_PROGRAM)});
  EXPECT_TRUE(job.tally().wait_status()) << job.tally().transcript();
  const std::string text = job.tally().transcript();
  EXPECT_THAT(text,
              testing::ContainsRegex("tally run: rank 2 on [^ ]+ \\(pid [0-9]+\\) was lost: "
                                     "not heard of for [0-9.]+ s \\(the process is stopped\\)\n"));
  EXPECT_THAT(text, testing::ContainsRegex("after that, rank [01] exited with code"));
}

TEST(RunFailure, OthersAreAskedFirst) {
  Launched job({"-n", "2", "--grace", "60", "--", "sh", "-c",
                "trap 'echo asked; exit 0' TERM; echo ready; [ $RANK = 0 ] && exit 3; "
                "while :; do sleep 0.02; done"});
  EXPECT_TRUE(job.tally().exits(3)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1] asked\n"));
}

TEST(RunFailure, OthersThatDoNotStopAreKilledAfterTheGraceTime) {
  const std::int64_t start_ms = now_ms();
  Launched job({"-n", "2", "--grace", "0.5", "--", "sh", "-c",
                "trap 'echo asked' TERM; [ $RANK = 0 ] && exit 3; while :; do sleep 0.02; done"});
  EXPECT_TRUE(job.tally().exits(3)) << job.tally().transcript();
  EXPECT_GE(now_ms() - start_ms, 500);
  EXPECT_LE(now_ms() - start_ms, 700 + kSlack.count());
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1] asked\n"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, AProgramThatIsNotThereIsSaid) {
  for (const char* program : {"./not_there", "not_there_either"}) {
    Launched job({"-n", "2", "--max-restarts", "5", "--", program});
    EXPECT_TRUE(job.tally().exits(127)) << job.tally().transcript();
    EXPECT_THAT(job.tally().transcript(),
                HasSubstr(fmt::format("did not start: {}: No such file", program)));
    EXPECT_THAT(job.tally().transcript(), Not(HasSubstr("restart")));
  }
  Launched job({"-n", "1", "--", "/etc/passwd"});
  EXPECT_TRUE(job.tally().exits(126)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("/etc/passwd: Permission denied"));
}

TEST(RunFailure, AFolderThatIsNotThereIsSaid) {
  Launched job({"-n", "2", "--workdir", "/nowhere", "--", "true"});
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("cannot work in /nowhere"));
}

TEST(RunFailure, TheJobIsStartedAgainWithANewGeneration) {
  Launched job({"-n", "2", "--max-restarts", "3", "--", "sh", "-c",
                fmt::format("[ $TALLY_RESTART = 2 ] || exit 9; echo at $TALLY_GENERATION; exec {} "
                            "sums 3",
                            TALLY_WORKER_PROGRAM)});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  const std::string text = job.tally().transcript();
  for (const char* part : {"[0] at 2001\n", "[1] joined 1 2 2001\n", "[1] sums 3 right\n",
                           "tally run: restart 1 of 3\n", "tally run: restart 2 of 3\n"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(RunFailure, RestartsEnd) {
  Launched job({"-n", "2", "--max-restarts", "2", "--", "sh", "-c", "echo try; exit 9"});
  EXPECT_TRUE(job.tally().exits(9)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("restart 2 of 2"));
  EXPECT_THAT(job.tally().transcript(), Not(HasSubstr("  | try\n  | try\n")));
}

TEST(RunFailure, AJobThatTakesTooLongIsEnded) {
  const std::int64_t start_ms = now_ms();
  Launched job({"-n", "2", "--timeout", "0.5s", "--max-restarts", "9", "--", "sleep", "100"});
  EXPECT_TRUE(job.tally().exits(124)) << job.tally().transcript();
  EXPECT_GE(now_ms() - start_ms, 500);
  EXPECT_LE(now_ms() - start_ms, 500 + kSlack.count());
  EXPECT_THAT(job.tally().transcript(), HasSubstr("did not end within 0.5 s"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, AHostThatCannotBeReachedIsNamedWithWhatTheShellSaid) {
  const Folder folder;
  const std::string shell = script(
      folder, "shell", "[ $1 = b ] && { echo no route to b >&2; exit 255; }\nshift\nexec \"$@\"");
  Launched job({"--hosts", "a,b", "--remote-shell", shell, "--", "sleep", "100"});
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("cannot start the agent on b: "));
  EXPECT_THAT(job.tally().transcript(), HasSubstr("exited with code 255"));
  EXPECT_THAT(job.tally().transcript(), HasSubstr("| no route to b"));
}

TEST(RunFailure, AHostThatNeverAnswersIsNamed) {
  const Folder folder;
  const std::string shell =
      script(folder, "shell", "[ $1 = b ] && exec sleep 100\nshift\nexec \"$@\"");
  Launched job({"--hosts", "a,b", "--remote-shell", shell, "--start-timeout", "1", "--", "true"});
  // The shell that hangs is not ours to reason with: it is killed in the end.
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("no answer within the time to start from: b"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, ALoginShellThatTalksDisturbsNothing) {
  const Folder folder;
  const std::string shell =
      script(folder, "shell", "echo Welcome to $1; echo tally-agent\nshift\nexec \"$@\"");
  Launched job({"--hosts", "a,b", "--remote-shell", shell, "--", "echo", "fine"});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1 b] fine\n"));
}

}  // namespace
}  // namespace tally::process
