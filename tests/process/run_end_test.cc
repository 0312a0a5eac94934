// Ends of `tally run` that come from outside: Ctrl-C, SIGKILL of each part. No process of the job
// survives on any host.
#include <sys/stat.h>

#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/launched.h"
#include "process/processes.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

TEST(RunEnd, CtrlCOnceLetsRanksStopInOrder) {
  Launched job({"-n", "2", "--grace", kNever, "--", "sh", "-c",
                "trap 'echo saved; exit 0' INT; echo ready; while :; do sleep 0.02; done"});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(job.tally().line("[")) << job.tally().transcript();
  job.tally().signal(SIGINT);
  EXPECT_TRUE(job.tally().exits(130)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[0] saved\n"));
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[1] saved\n"));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunEnd, CtrlCTwiceEndsAllWithoutTheGraceTime) {
  Launched job({"-n", "2", "--grace", kNever, "--", "sh", "-c",
                "trap 'echo no' INT; echo ready; while :; do sleep 0.02; done"});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(job.tally().line("[")) << job.tally().transcript();
  job.tally().signal(SIGINT);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(job.tally().line("[")) << job.tally().transcript();
  job.tally().signal(SIGINT);
  EXPECT_TRUE(job.tally().exits(130)) << job.tally().transcript();
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunEnd, OtherSignalsAreGracefulToo) {
  for (const int number : {SIGTERM, SIGHUP}) {
    Launched job({"-n", "2", "--grace", kNever, "--", "sh", "-c",
                  "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done"});
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(job.tally().line("[")) << job.tally().transcript();
    job.tally().signal(number);
    EXPECT_TRUE(job.tally().exits(128 + number)) << job.tally().transcript();
    EXPECT_THAT(job.tally().transcript(), HasSubstr("[1] asked\n"));
  }
}

// Each rank is a script with a child, a child in another session, and one whose parent has ended.
std::string family(const Folder& folder) {
  return script(folder, "family",
                "trap '' TERM INT HUP\n"
                "sleep 1001 &\n"
                "setsid sleep 1002 &\n"
                "(setsid sh -c 'trap \"\" TERM; sleep 1003 & exec sleep 1004' &)\n"
                "sleep 1005");
}

constexpr std::size_t kSleepers = 5;

TEST(RunEnd, NobodySurvivesALauncherThatIsKilled) {
  const Folder folder;
  Launched job({"-n", "3", "--", family(folder)});
  ASSERT_TRUE(job.await("sleep 100", 3 * kSleepers));
  job.tally().signal(SIGKILL);
  EXPECT_TRUE(job.nobody_left());
}

TEST(RunEnd, NobodySurvivesALauncherThatIsKilledOnAnyHost) {
  const Folder folder;
  // The shell of host a becomes the agent; that of host b waits for it as ssh does.
  const std::string shell =
      script(folder, "shell", "host=$1\nshift\n[ $host = a ] && exec \"$@\"\nsetsid \"$@\"");
  Launched job({"--hosts", "a:2,b:2", "--remote-shell", shell, "--", family(folder)});
  ASSERT_TRUE(job.await("sleep 100", 4 * kSleepers));
  job.tally().signal(SIGKILL);
  EXPECT_TRUE(job.nobody_left());
}

TEST(RunEnd, NobodySurvivesAFailedRankOrItsOwnEnd) {
  const Folder folder;
  const std::string command = fmt::format("{} & sleep 0.5; exit $RANK", family(folder));
  Launched job({"-n", "2", "--grace", "0.2", "--", "sh", "-c", command});
  EXPECT_TRUE(job.tally().exits(1)) << job.tally().transcript();
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(RunEnd, AnAgentThatIsKilledIsALostHostAndNobodySurvives) {
  const Folder folder;
  Launched job({"--hosts", "a,b", "--remote-shell", pretending_shell(folder), "--grace", "0.3",
                "--", family(folder)});
  ASSERT_TRUE(job.await("sleep 100", 2 * kSleepers));
  pid_t agent = 0;
  for (const pid_t pid : job.started())
    if (words_of(pid).find("host-agent") != std::string::npos) agent = pid;
  ASSERT_NE(agent, 0);
  kill(agent, SIGKILL);
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("lost host "));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

// A stopped launcher neither works nor ends: the hosts wait for it no longer than the lease.
TEST(RunEnd, NobodySurvivesALauncherThatIsSilentForTheLease) {
  const Folder folder;
  Launched job({"--hosts", "a,b", "--remote-shell", pretending_shell(folder), "--lease",
                scaled_seconds(seconds(1)), "--", "sleep", "1001"});
  ASSERT_TRUE(job.await("sleep 1001", 2));
  job.tally().stop();
  EXPECT_TRUE(job.nobody_left(kPatience));  // neither the ranks nor their agents
  job.tally().signal(SIGCONT);
  EXPECT_TRUE(job.tally().exits(125)) << job.tally().transcript();
}

TEST(RunEnd, AStopFromTheTerminalStopsAndResumesTheRanks) {
  const Folder folder;
  ASSERT_EQ(::mkfifo(folder.file("go").c_str(), 0600), 0);
  // A shell that starts programs may be in vfork(), where SIGSTOP does not stop it.
  Launched job(
      {"-n", "1", "--", "sh", "-c",
       fmt::format("exec 3<>{}; echo ready; read -r line <&3; echo on", folder.file("go"))});
  ASSERT_TRUE(job.tally().line("[0] ready")) << job.tally().transcript();
  job.tally().signal(SIGTSTP);
  ASSERT_TRUE(job.await_stop());
  write_file(folder.file("go"), "go\n");
  EXPECT_FALSE(job.tally().line("[0] on", milliseconds(300)));
  job.tally().signal(SIGCONT);
  EXPECT_TRUE(job.tally().line("[0] on")) << job.tally().transcript();
  EXPECT_TRUE(job.tally().exits(0));
}

}  // namespace
}  // namespace tally::process
