// Ranks that call different operations, and the state that a rank prints on SIGQUIT.
#include <csignal>

#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

using Words = std::vector<std::string>;

class Agreement : public testing::TestWithParam<std::string> {
 protected:
  // Rank 1 calls something else: all ranks learn what both sides called.
  static void expect_mismatch(const Words& most, const Words& odd, const std::string& most_called,
                              const std::string& odd_called) {
    Crew crew({.transport = GetParam()});
    for (Rank rank = 0; rank < 3; ++rank) crew.start(rank, rank == 1 ? odd : most);
    for (Rank rank = 0; rank < 3; ++rank) {
      const auto outcome = outcome_of(crew[rank]);
      ASSERT_TRUE(outcome.has_value());
      EXPECT_EQ(outcome->code, "kMismatch") << outcome->message;
      // The rank that detects the mismatch names the other side; a third rank is told the same.
      EXPECT_NE(outcome->peer, rank) << outcome->message;
      EXPECT_NE(outcome->peer, kNoRank) << outcome->message;
      EXPECT_NE(outcome->message.find(most_called), std::string::npos) << outcome->message;
      EXPECT_NE(outcome->message.find("rank 1 called " + odd_called), std::string::npos)
          << outcome->message;
    }
  }
};

TEST_P(Agreement, DifferentCountsAreAMismatchOnEveryRank) {
  expect_mismatch({"call", "allreduce", "1000", "float32"},
                  {"call", "allreduce", "1001", "float32"}, "called allreduce sum of 1000 float32",
                  "allreduce sum of 1001 float32");
}

TEST_P(Agreement, DifferentOperationsAreAMismatchOnEveryRank) {
  expect_mismatch({"call", "allreduce", "1000", "float32"}, {"call", "barrier", "0", "uint8"},
                  "called allreduce sum of 1000 float32", "barrier");
}

TEST_P(Agreement, DifferentTypesAreAMismatchOnEveryRank) {
  expect_mismatch({"call", "allgather", "100", "float32"}, {"call", "allgather", "100", "int32"},
                  "called allgather of 100 float32", "allgather of 100 int32");
}

TEST_P(Agreement, DifferentLargeCountsAreAMismatchOnEveryRank) {
  expect_mismatch({"call", "allreduce", "1000000", "float32"},
                  {"call", "allreduce", "999999", "float32"},
                  "called allreduce sum of 1000000 float32", "allreduce sum of 999999 float32");
}

TEST_P(Agreement, QuitSignalPrintsWhichRanksHaveArrivedAndTheProcessGoesOn) {
  Crew crew({.transport = GetParam()});
  crew.start_all({"wait"});
  ASSERT_TRUE(crew.all_say("ready"));
  // Over a network the ranks ask each other who has arrived: the first answer may lack rank 1.
  bool told = false;
  for (const std::int64_t end = now_ms() + kPatience.count(); !told && now_ms() < end;) {
    crew[0].signal(SIGQUIT);
    told = crew[0].complains("arrived: 0,1; not arrived: 2", milliseconds(500));
  }
  EXPECT_TRUE(told) << crew[0].transcript();
  EXPECT_TRUE(crew[0].complains("world, rank 0 of 3: 2 operations so far")) << crew[0].transcript();
  EXPECT_TRUE(crew[0].complains("#1 allreduce sum of 5000 float32")) << crew[0].transcript();
  crew[2].tell("come");
  EXPECT_TRUE(crew.all_say("sums 1 right"));
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(crew[rank].exits(0)) << crew[rank].transcript();
}

INSTANTIATE_TEST_SUITE_P(Process, Agreement, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
