// `tally run` as users run it: the environment of ranks, and jobs that succeed.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/cpu.h"
#include "process/launched.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

TEST(Run, FourRanksGetTheRightSums) {
  Launched job({"-n", "4", "--", TALLY_WORKER_PROGRAM, "sums", "20"});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(job.tally().transcript(), HasSubstr(fmt::format("[{}] sums 20 right\n", rank)));
  EXPECT_TRUE(job.nobody_left(milliseconds(0)));
}

TEST(Run, TwoHostsGetTheRightSumsAndAreNamed) {
  const Folder folder;
  Launched job({"--hosts", "a:2,b:2", "--remote-shell", pretending_shell(folder), "--master-addr",
                "127.0.0.1", "--", TALLY_WORKER_PROGRAM, "sums", "20"});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  for (const char* prefix : {"[0 a]", "[1 a]", "[2 b]", "[3 b]"})
    EXPECT_THAT(job.tally().transcript(), HasSubstr(std::string(prefix) + " sums 20 right\n"));
}

TEST(Run, TlsBetweenRanksWorksWithTheSecretThatIsGiven) {
  Launched job(
      {"-n", "3", "--env", "TALLY_TRANSPORT=tls", "--", TALLY_WORKER_PROGRAM, "sums", "5"});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
}

TEST(Run, RanksSeeTheUsualVariables) {
  const Folder folder;
  std::ofstream(folder.path() + "/hosts") << "# two\na slots=1\nb:2\n";
  Launched job({"--hostfile", folder.path() + "/hosts", "--remote-shell", pretending_shell(folder),
                "--master-addr", "127.0.0.1", "--job", "night", "--env", "GIVEN=a 'b' $c",
                "--workdir", folder.path(), "--", "sh", "-c",
                "echo r=$RANK/$WORLD_SIZE l=$LOCAL_RANK/$LOCAL_WORLD_SIZE m=$MASTER_ADDR "
                "p=${MASTER_PORT:+set} j=$TALLY_JOB g=$TALLY_GENERATION k=$TALLY_RESTART "
                "o=${OMP_NUM_THREADS:+set} in=$(cat) v=$GIVEN d=$(pwd)"});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  const std::string rest =
      " m=127.0.0.1 p=set j=night g=1 k=0 o=set in= v=a 'b' $c d=" + folder.path() + "\n";
  for (const char* start : {"[0 a] r=0/3 l=0/1", "[1 b] r=1/3 l=0/2", "[2 b] r=2/3 l=1/2"})
    EXPECT_THAT(job.tally().transcript(), HasSubstr(start + rest));
}

TEST(Run, ThreadsThatTheUserSetStay) {
  Launched job({"-n", "2", "--", "sh", "-c", "echo threads $OMP_NUM_THREADS"},
               {{"OMP_NUM_THREADS", "7"}});
  EXPECT_EQ(job.tally().line("[0] "), "[0] threads 7");
  EXPECT_TRUE(job.tally().exits(0));
}

TEST(Run, IdleThreadsSleepSoonUnlessTheUserSetTheirPolicy) {
  const std::vector<std::string> words = {"-n", "1",  "--",
                                          "sh", "-c", "echo spins ${GOMP_SPINCOUNT-unset}"};
  Launched soon(words);
  EXPECT_EQ(soon.tally().line("[0] "), "[0] spins 1000");
  EXPECT_TRUE(soon.tally().exits(0));
  Launched active(words, {{"OMP_WAIT_POLICY", "ACTIVE"}});
  EXPECT_EQ(active.tally().line("[0] "), "[0] spins unset");
  EXPECT_TRUE(active.tally().exits(0));
}

TEST(Run, ArgumentsArriveAsTheyAre) {
  Launched job({"-n", "1", "--", "sh", "-c", "for a; do echo \"<$a>\"; done", "--", "-n", "--", "",
                "[a,b]", "a b", "$x'\""});
  EXPECT_TRUE(job.tally().exits(0)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(),
              HasSubstr("[0] <-n>\n[0] <-->\n[0] <>\n[0] <[a,b]>\n[0] <a b>\n[0] <$x'\">\n"));
}

TEST(Run, RanksAreBoundToCoresOfTheirOwnWhenAsked) {
  Launched job(
      {"-n", "2", "--bind", "cores", "--", "grep", "Cpus_allowed_list", "/proc/self/status"});
  std::set<std::string> lists;
  for (int i = 0; i < 2; ++i) {
    const auto line = job.tally().line("[");
    ASSERT_TRUE(line) << job.tally().transcript();
    lists.insert(line->substr(line->rfind('\t')));
  }
  EXPECT_TRUE(job.tally().exits(0));
  EXPECT_EQ(lists.size(), usable_cores() > 1 ? 2U : 1U);
}

// The secret is in a file that only the user can read. Neither its bytes nor its hexadecimal form
// are in the arguments or the environment of a process.
TEST(Run, TheSecretIsReadableOnlyByTheUserAndVisibleNowhereElse) {
  const Folder folder;
  Launched job({"--hosts", "a,b", "--remote-shell", pretending_shell(folder), "--", "sh", "-c",
                "echo file $TALLY_SECRET_FILE; exec sleep 100"});
  const auto line = job.tally().line("[0 a] file ");
  ASSERT_TRUE(line) << job.tally().transcript();
  const std::string path = line->substr(line->rfind(' ') + 1);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(info.st_uid, geteuid());
  const std::string secret = contents_of(path);
  ASSERT_EQ(secret.size(), 32U);
  std::string hex;
  for (const unsigned char byte : secret) hex += fmt::format("{:02x}", byte);
  // Both agents and both ranks. A process in the middle of an exec is not visible for a moment.
  std::vector<pid_t> all;
  for (const auto end = now_ms() + kPatience.count(); all.size() < 4 && now_ms() < end;)
    all = job.started();
  EXPECT_GE(all.size(), 4U);
  all.push_back(job.tally().pid());
  for (const pid_t pid : all)
    for (const char* name : {"cmdline", "environ"}) {
      const std::string text = contents_of(fmt::format("/proc/{}/{}", pid, name));
      EXPECT_EQ(text.find(secret), std::string::npos) << pid << name;
      EXPECT_EQ(text.find(hex), std::string::npos) << pid << name;
    }
  job.tally().signal(SIGKILL);
  EXPECT_TRUE(job.nobody_left());
  EXPECT_NE(stat(path.c_str(), &info), 0);
}

// The thread sanitizer leaves a process too little address space for the arenas of so many ranks.
#if !defined(TALLY_SANITIZED_THREAD)
TEST(Run, SixtyFourRanksStartReduceAndStop) {
  Launched job({"-n", "64", "--quiet-ranks", "--", TALLY_WORKER_PROGRAM, "sums", "3"},
               {{"TALLY_JOIN_TIMEOUT", kNever}});
  EXPECT_TRUE(job.tally().exits(0, 2 * kPatience)) << job.tally().transcript();
  EXPECT_THAT(job.tally().transcript(), HasSubstr("[0] sums 3 right\n"));
}
#endif

TEST(Run, WrongUsageIsAnErrorAndStartsNothing) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"-n", "2"}, "no program to run"},
      {{"--", "true"}, "how many ranks"},
      {{"--hosts", "a:0", "--", "true"}, "0 is not a number"},
      {{"-n", "5", "--hosts", "a:2,b:2", "--", "true"}, "have 4 slots"},
      {{"--hostfile", "/nowhere", "--", "true"}, "cannot read /nowhere"},
      {{"--hostfile", "/tmp", "--", "true"}, "cannot read /tmp"},
      {{"-n", "1", "--timeout", "soon", "--", "true"}, "soon"},
      {{"-n", "1", "--env", "NOT_SET_HERE", "--", "true"}, "NOT_SET_HERE"}};
  for (const auto& [words, reason] : cases) {
    Launched job(words);
    EXPECT_TRUE(job.tally().exits(2)) << job.tally().transcript();
    EXPECT_THAT(job.tally().transcript(), HasSubstr(reason));
  }
}

}  // namespace
}  // namespace tally::process
