// Sums of processes that share a GPU, by NCCL and by CUDA IPC, and what happens when one of them
// fails.
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/child.h"
#include "process/crew.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

// For every process that loads NCCL.
Variables nccl_variables() {
  Variables variables{{"NCCL_SOCKET_IFNAME", "lo"}};
  const char* const wanted = std::getenv("TALLY_NCCL");
  const std::string library = wanted != nullptr ? wanted : TALLY_NCCL_LIBRARY;
  if (!library.empty()) variables["TALLY_NCCL"] = library;
  return variables;
}

// The ranks of a job over NCCL, each a process.
class NcclCrew final {
 public:
  // `changes` override the environment; an empty value removes the variable.
  NcclCrew(int ranks, const std::string& scenario, const Variables& changes = {}) {
    const std::string port = std::to_string(unused_port());
    for (Rank rank = 0; rank < ranks; ++rank) {
      Variables variables = nccl_variables();
      variables["NCCL_HOSTID"] = fmt::format("host-{}", rank);
      variables["RANK"] = std::to_string(rank);
      variables["WORLD_SIZE"] = std::to_string(ranks);
      variables["MASTER_ADDR"] = "127.0.0.1";
      variables["MASTER_PORT"] = port;
      variables["TALLY_TIMEOUT"] = kNever;
      variables["TALLY_JOIN_TIMEOUT"] = kNever;
      for (const auto& [name, value] : changes) variables[name] = value;
      std::erase_if(variables, [](const auto& variable) { return variable.second.empty(); });
      children_.push_back(std::make_unique<Child>(
          Child::Options{.command = {TALLY_NCCL_WORKER, scenario}, .variables = variables}));
    }
  }
  Child& operator[](int rank) { return *children_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(children_.size()); }

 private:
  std::vector<std::unique_ptr<Child>> children_;
};

// For processes that use a GPU in turns, some hundred times.
constexpr milliseconds kAllTestsPatience = std::chrono::minutes(10);

class NcclProcesses : public testing::TestWithParam<int> {};

// adapters/nccl/*_test.cc: the conformance suite of communicators, sums and gathers.
TEST_P(NcclProcesses, PassTheTestsOfTheEngine) {
  Child run(
      {.command = {TALLY_PROGRAM, "run", "-n", std::to_string(GetParam()), "--", TALLY_NCCL_RANKS},
       .variables = nccl_variables()});
  EXPECT_TRUE(run.exits(0, kAllTestsPatience)) << run.transcript();
}

TEST_P(NcclProcesses, SurvivorsOfAKilledRankNameItAndGoOnInANewGroup) {
  NcclCrew crew(GetParam(), "die");
  for (Rank rank = 0; rank < crew.size(); ++rank) {
    if (rank == 1) continue;
    const auto outcome = outcome_of(crew[rank]);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->code, "kPeerLost") << crew[rank].transcript();
    EXPECT_EQ(outcome->peer, 1) << crew[rank].transcript();
    EXPECT_TRUE(crew[rank].line(fmt::format("sums of {} right", crew.size() - 1)))
        << crew[rank].transcript();
    EXPECT_TRUE(crew[rank].exits(0)) << crew[rank].transcript();
  }
}

TEST_P(NcclProcesses, ARankThatStaysAwayIsNamedAtTheDeadline) {
  NcclCrew crew(GetParam(), "stay-away");
  const Rank absent = crew.size() - 1;
  for (Rank rank = 0; rank < absent; ++rank) expect_outcome(crew[rank], "kTimeout", absent);
  crew[absent].tell("");
  EXPECT_TRUE(crew[absent].exits(0)) << crew[absent].transcript();
}

TEST_P(NcclProcesses, SumByIpcAndReadATotalWhoseRankHasFreedIt) {
  NcclCrew crew(GetParam(), "ipc");
  for (Rank rank = 0; rank < crew.size(); ++rank) {
    EXPECT_TRUE(crew[rank].line(fmt::format("sums of {} right", crew.size())))
        << crew[rank].transcript();
    EXPECT_TRUE(crew[rank].line("total right")) << crew[rank].transcript();
    EXPECT_TRUE(crew[rank].exits(0)) << crew[rank].transcript();
  }
}

INSTANTIATE_TEST_SUITE_P(Process, NcclProcesses, testing::Values(2, 4),
                         [](const testing::TestParamInfo<int>& ranks) {
                           return std::to_string(ranks.param);
                         });

// NCCL itself would only say "invalid usage".
TEST(NcclRefusals, RanksOfOneGpuAreNamed) {
  NcclCrew crew(2, "make", {{"NCCL_HOSTID", ""}});
  for (const Rank rank : {0, 1}) {
    expect_outcome(crew[rank], "kInvalid", 1, "ranks 0 and 1 share GPU ");
    EXPECT_THAT(crew[rank].output(), HasSubstr("NCCL needs a GPU per rank"));
  }
}

TEST(NcclRefusals, AMissingLibraryIsNamedWithTheRemedy) {
  NcclCrew crew(1, "make", {{"TALLY_NCCL", "/nowhere/libnccl.so.2"}});
  expect_outcome(crew[0], "kInvalid", kNoRank,
                 "TALLY_NCCL=/nowhere/libnccl.so.2: cannot be loaded");
  EXPECT_THAT(crew[0].output(), HasSubstr("name a libnccl.so.2, or unset it"));
}

}  // namespace
}  // namespace tally::process
