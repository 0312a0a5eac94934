// After a rank was killed the others form a new group and go on.
#include <csignal>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

class Reform : public testing::TestWithParam<std::string> {
 protected:
  static void kill_and_go_on(Rank victim) {
    Crew crew({.transport = GetParam(), .size = 4});
    crew.start_all({"reform", "20", kNever});
    ASSERT_TRUE(crew.all_say("ready"));
    crew[victim].signal(SIGKILL);
    Rank new_rank = 0;
    for (Rank rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(crew[rank].line("reformed"), fmt::format("reformed {} 3 2", new_rank++))
          << crew[rank].transcript();
      EXPECT_EQ(crew[rank].line("sums"), "sums 20 right") << crew[rank].transcript();
      EXPECT_TRUE(crew[rank].exits(0)) << crew[rank].transcript();
    }
  }
};

TEST_P(Reform, SurvivorsOfRank1GoOnInANewGeneration) { kill_and_go_on(1); }

// Then another rank hosts the new rendezvous.
TEST_P(Reform, SurvivorsOfRank0GoOnInANewGeneration) { kill_and_go_on(0); }

TEST_P(Reform, SurvivorsOfTheLastRankGoOnInANewGeneration) { kill_and_go_on(3); }

// Rank 1 would host the new rendezvous, and does not answer.
TEST_P(Reform, RankThatDoesNotComeIsNamed) {
  Crew crew({.transport = GetParam(), .size = 4});
  crew.start_all({"reform", "20", "1"});
  ASSERT_TRUE(crew.all_say("ready"));
  crew[1].stop();
  crew[0].signal(SIGKILL);
  for (const Rank rank : {2, 3}) expect_outcome(crew[rank], "kTimeout", 1, "rendezvous");
}

INSTANTIATE_TEST_SUITE_P(Process, Reform, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
