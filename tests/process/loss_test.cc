// Ranks that die, stop, or leave while other ranks work with them.
#include <csignal>
#include <tuple>

#include <gtest/gtest.h>

#include "process/crew.h"

namespace tally::process {
namespace {

struct Work {
  std::string name;
  std::string operation;
  std::string count;
  Rank victim;
};
void PrintTo(const Work& work, std::ostream* out) { *out << work.name; }

using Place = std::tuple<std::string, Work>;

// Operations have no deadline in these tests, so that only the loss itself can end them.
class Kill : public testing::TestWithParam<Place> {};

TEST_P(Kill, EveryOtherRankNamesTheKilledOne) {
  const auto& [transport, work] = GetParam();
  Crew crew({.transport = transport});
  crew.start_all({"loop", work.operation, work.count});
  ASSERT_TRUE(crew.all_say("ready"));
  crew[work.victim].signal(SIGKILL);
  for (Rank rank = 0; rank < crew.count(); ++rank)
    if (rank != work.victim) expect_outcome(crew[rank], "kPeerLost", work.victim);
}

INSTANTIATE_TEST_SUITE_P(
    Process, Kill,
    testing::Combine(testing::Values("shm", "tcp", "tls"),
                     testing::Values(Work{"allreduce_large", "allreduce", "1000000", 1},
                                     Work{"allreduce_small", "allreduce", "16", 2},
                                     Work{"broadcast", "broadcast", "100000", 0},
                                     Work{"allgather", "allgather", "100000", 1},
                                     Work{"reduce_scatter", "reduce_scatter", "100000", 2},
                                     Work{"barrier", "barrier", "0", 0},
                                     Work{"all_to_all", "all_to_all", "50000", 1})),
    [](const testing::TestParamInfo<Place>& place) {
      return std::get<0>(place.param) + "_" + std::get<1>(place.param).name;
    });

// Long for an operation, short for a test that waits for it to pass.
constexpr milliseconds kOperationTime = seconds(1);

class Loss : public testing::TestWithParam<std::string> {};

TEST_P(Loss, StoppedRankIsNamedAtTheDeadline) {
  constexpr Rank kStopped = 1;
  const std::string timeout_s = scaled_whole_seconds(kOperationTime);
  Crew crew({.transport = GetParam(), .timeout_s = timeout_s});
  crew.start_all({"loop", "allreduce", "1000"});
  ASSERT_TRUE(crew.all_say("ready"));
  crew[kStopped].stop();
  const std::int64_t stopped_ms = now_ms();
  for (const Rank rank : {0, 2}) {
    const std::int64_t noticed_ms =
        expect_outcome(crew[rank], "kTimeout", kStopped, "allreduce sum of 1000");
    // The operation may have begun before the stop.
    EXPECT_GE(noticed_ms - stopped_ms, std::stoi(timeout_s) * 1000 / 2) << "rank " << rank;
  }
}

// A rank that was only slow learns that the others gave up: it does not wait for them.
TEST_P(Loss, StoppedRankThatGoesOnFailsToo) {
  Crew crew({.transport = GetParam(), .timeout_s = scaled_whole_seconds(kOperationTime)});
  crew.start_all({"loop", "allreduce", "1000"});
  ASSERT_TRUE(crew.all_say("ready"));
  crew[1].stop();
  for (const Rank rank : {0, 2}) expect_outcome(crew[rank], "kTimeout", 1);
  crew[1].signal(SIGCONT);
  const auto outcome = outcome_of(crew[1]);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->code == "kTimeout" || outcome->code == "kPeerLost") << outcome->code;
}

TEST_P(Loss, RankThatLeavesDisturbsOnlyRanksThatStillNeedIt) {
  constexpr Rank kLeaves = 2;
  Crew crew({.transport = GetParam()});
  crew.start_all({"part"});
  ASSERT_TRUE(crew.all_say("ready"));
  crew[kLeaves].tell("leave");
  EXPECT_TRUE(crew[kLeaves].exits(0)) << crew[kLeaves].transcript();
  for (const Rank rank : {0, 1}) crew[rank].tell("work among yourselves");
  for (const Rank rank : {0, 1})
    EXPECT_EQ(crew[rank].line("sums"), "sums 100 right") << crew[rank].transcript();
  for (const Rank rank : {0, 1}) crew[rank].tell("call for everybody");
  for (const Rank rank : {0, 1}) expect_outcome(crew[rank], "kPeerLost", kLeaves, "left the job");
}

INSTANTIATE_TEST_SUITE_P(Process, Loss, testing::Values("shm", "tcp", "tls"), name_of);

}  // namespace
}  // namespace tally::process
