#include "apps/tally/launch/failure_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace tally::launch {
namespace {

using testing::HasSubstr;

TEST(FailureSummary, TheCauseIsWhoWasKilledElseWhoWasFirst) {
  const RankEnd code{.rank = 0, .code = 3};
  const RankEnd killed{.rank = 1, .signal = SIGKILL};
  const RankEnd crashed{.rank = 2, .signal = SIGSEGV};
  const RankEnd aborted{.rank = 3, .signal = SIGABRT};
  const RankEnd script{.rank = 4, .code = 137};
  const RankEnd lost{.rank = 5, .lost = "not heard of"};
  struct Case {
    std::vector<RankEnd> failed;
    Rank cause;
  };
  const std::vector<Case> cases = {{{code}, 0},
                                   {{code, killed}, 1},
                                   {{crashed, killed}, 2},
                                   {{code, aborted}, 0},
                                   {{aborted, code}, 3},
                                   {{aborted, code, script}, 4},
                                   {{killed, code, lost}, 5}};
  for (const Case& each : cases) EXPECT_EQ(each.failed[choose_cause(each.failed)].rank, each.cause);
}

TEST(FailureSummary, EndsAreSaidInWordsWithWhatToDo) {
  struct Case {
    RankEnd end;
    const char* words;
    const char* hint;
    int code;
  };
  const std::vector<Case> cases = {
      {{.code = 3}, "exited with code 3", "", 3},
      {{.code = 127}, "exited with code 127", "not found", 127},
      {{.code = 126}, "exited with code 126", "may not be executed", 126},
      {{.code = 127, .note = "./x: No such file"},
       "did not start: ./x: No such file",
       "on every host",
       127},
      {{.code = 137}, "128 and SIGKILL", "dmesg", 137},
      {{.signal = SIGKILL}, "signal 9 (SIGKILL)", "dmesg", 137},
      {{.signal = SIGSEGV}, "signal 11 (SIGSEGV)", "core", 139},
      {{.signal = SIGBUS}, "signal 7 (SIGBUS)", "/dev/shm", 135},
      {{.signal = SIGTERM}, "signal 15 (SIGTERM)", "", 143},
      {{.code = 255}, "exited with code 255", "", 255},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(describe(each.end), HasSubstr(each.words));
    EXPECT_THAT(hint(each.end), HasSubstr(each.hint)) << each.words;
    EXPECT_EQ(exit_code(each.end), each.code) << each.words;
  }
}

TEST(FailureSummary, NamesRankHostPidAndLastLines) {
  const std::string text =
      failure_summary({.cause = {.rank = 2, .host = "b", .pid = 77, .signal = SIGKILL},
                       .others = {{.rank = 0, .code = 1}},
                       .last_lines = {"step 7", "step 8"}});
  EXPECT_THAT(text, HasSubstr("rank 2 on b (pid 77) was killed by signal 9 (SIGKILL)\n"));
  EXPECT_THAT(text, HasSubstr("its last lines, again:\n  | step 7\n  | step 8\n"));
  EXPECT_THAT(text, HasSubstr("after that, rank 0 exited with code 1"));
}

TEST(FailureSummary, ALostRankIsNamedFirstAndTheCodeIsOfOneWhoLostIt) {
  const RankEnd lost{.rank = 2, .host = "b", .pid = 7, .lost = "not heard of for 3.0 s"};
  const RankEnd code{.rank = 0, .code = 3};
  EXPECT_THAT(failure_summary({.cause = lost, .others = {code}}),
              HasSubstr("rank 2 on b (pid 7) was lost: not heard of for 3.0 s\n"));
  EXPECT_EQ(exit_code(std::vector{lost, code}), 3);
}

TEST(FailureSummary, ManyOthersAreCounted) {
  const std::string text = failure_summary({.cause = {}, .others = std::vector<RankEnd>(60)});
  EXPECT_THAT(text, HasSubstr("and 52 more ranks"));
}

TEST(FailureSummary, ARankThatLostAnotherOneIsNotTheCause) {
  const std::vector<RankEnd> failed = {{.rank = 0, .host = "a", .code = 76, .lost_peer = true},
                                       {.rank = 1, .host = "a", .code = 1},
                                       {.rank = 2, .host = "a", .code = 76, .lost_peer = true}};
  EXPECT_EQ(choose_cause(failed), 1U);
  EXPECT_EQ(failure_summary({.cause = failed[1], .others = {failed[0], failed[2]}}),
            "rank 1 on a exited with code 1\n  2 other ranks ended because of that");
  EXPECT_EQ(choose_cause({failed[0], failed[2]}), 0U);
  EXPECT_EQ(exit_code({failed[0], failed[2]}), 1);
}

}  // namespace
}  // namespace tally::launch
