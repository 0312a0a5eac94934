// A rank of `tally run` fails, or the job takes too long: the message names the rank, and the other
// ranks end.
#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/launched.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kLoop{"--", TALLY_WORKER_PROGRAM, "loop", "allreduce", "1000"};

std::vector<std::string> looping(std::vector<std::string> options) {
  options.insert(options.end(), kLoop.begin(), kLoop.end());
  return options;
}

// Waits until all ranks work with each other, and sends `number` to rank 2.
void disturb_rank_2(Launched& job, int ranks, int number) {
  for (int i = 0; i < ranks; ++i)
    ASSERT_TRUE(job.tally().line_with("] ready")) << job.tally().transcript();
  const pid_t pid = job.rank(2);
  ASSERT_NE(pid, 0);
  kill(pid, number);
}

// Rank 1 runs `what`; the others sleep.
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

// The other ranks notice the loss by themselves and exit with errors.
TEST(RunFailure, AKilledRankIsTheCauseAndNotTheRanksThatLostIt) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> words{"-n", "4", "--grace", kNever, "--"};
    words.insert(words.end(), kIgnoringSigterm.begin(), kIgnoringSigterm.end());
    words.insert(words.end(), kLoop.begin() + 1, kLoop.end());
    Launched job(words);
    disturb_rank_2(job, 4, SIGKILL);
    EXPECT_TRUE(job.tally().exits(137)) << job.tally().transcript();
    EXPECT_TRUE(job.tally().complains("tally run: rank 2 on ")) << job.tally().transcript();
    EXPECT_THAT(job.tally().transcript(), HasSubstr("kPeerLost 2"));
  }
}

TEST(RunFailure, AStoppedRankIsTheCauseAndNotTheRanksThatGaveItUp) {
  Launched job(
      looping({"-n", "3", "--heartbeat", scaled_seconds(milliseconds(200)), "--lost-after",
               scaled_seconds(seconds(1)), "--grace", scaled_seconds(seconds(1)), "--verbose"}));
  // The coordinator declares only ranks lost that have registered.
  ASSERT_TRUE(job.tally().complains("rank 2 (host ")) << job.tally().transcript();
  disturb_rank_2(job, 3, SIGSTOP);
  EXPECT_TRUE(job.tally().wait_status()) << job.tally().transcript();
  const std::string text = job.tally().transcript();
  EXPECT_THAT(text,
              testing::ContainsRegex("tally run: rank 2 on [^ ]+ \\(pid [0-9]+\\) was lost: "
                                     "not heard of for [0-9.]+ s \\(the process is stopped\\)\n"));
  EXPECT_THAT(text, testing::ContainsRegex("after that, rank [01] exited with code"));
}

// Rank 0 exits with 3 as soon as rank 1, which does `on_term` when it is asked to stop, runs.
std::vector<std::string> when_rank_0_fails(const Folder& folder, const std::string& grace,
                                           const std::string& on_term) {
  return {"-n",
          "2",
          "--grace",
          grace,
          "--",
          "sh",
          "-c",
          fmt::format("trap '{0}' TERM; if [ $RANK = 0 ]; then until [ -e {1} ]; do sleep 0.02; "
                      "done; exit 3; fi; touch {1}; while :; do sleep 0.02; done",
                      on_term, folder.file("rank_1_runs"))};
}

TEST(RunFailure, OthersAreAskedFirst) {
  const Folder folder;
  Launched job(when_rank_0_fails(folder, kNever, "echo asked; exit 0"));
  EXPECT_TRUE(job.tally().exits(3)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1] asked\n"));
}

TEST(RunFailure, OthersThatDoNotStopAreKilledAfterTheGraceTime) {
  const std::int64_t start_ms = now_ms();
  const Folder folder;
  Launched job(when_rank_0_fails(folder, scaled_seconds(milliseconds(500)), "echo asked"));
  EXPECT_TRUE(job.tally().exits(3)) << job.tally().transcript();
  EXPECT_GE(now_ms() - start_ms, 500);
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1] asked\n"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, AMissingProgramIsAnError) {
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

TEST(RunFailure, AMissingFolderIsAnError) {
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
  EXPECT_THAT(job.tally().transcript(), HasSubstr("did not end within 0.5 s"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, AHostThatCannotBeReachedIsNamedWithTheMessageOfTheShell) {
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
  Launched job({"--hosts", "a,b", "--remote-shell", shell, "--start-timeout",
                scaled_seconds(seconds(1)), "--", "true"});
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("no answer within the time to start from: b"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunFailure, OutputOfALoginShellDisturbsNothing) {
  const Folder folder;
  const std::string shell =
      script(folder, "shell", "echo Welcome to $1; echo tally-agent\nshift\nexec \"$@\"");
  Launched job({"--hosts", "a,b", "--remote-shell", shell, "--", "echo", "fine"});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1 b] fine\n"));
}

}  // namespace
}  // namespace tally::process
