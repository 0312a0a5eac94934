#include "adapters/mpi/operation_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally::mpi {
namespace {

constexpr Site kSite{.rank = 1, .ranks = 4, .most = 100};

TEST(OperationPlan, CollectivesThatFitAreLibraryCalls) {
  EXPECT_TRUE(is_library_call({.operation = Operation::kBarrier}, kSite));
  EXPECT_TRUE(is_library_call({.operation = Operation::kBroadcast, .count = 100}, kSite));
  EXPECT_TRUE(is_library_call({.operation = Operation::kAllgather, .count = 25}, kSite));
  EXPECT_TRUE(is_library_call({.operation = Operation::kAllToAll, .count = 25}, kSite));
  EXPECT_FALSE(is_library_call({.operation = Operation::kBroadcast, .count = 101}, kSite));
  EXPECT_FALSE(is_library_call({.operation = Operation::kAllgather, .count = 26}, kSite));
  EXPECT_FALSE(is_library_call({.operation = Operation::kAllToAll, .count = 26}, kSite));
  const std::vector<std::size_t> counts = {0, 50, 50, 1};
  EXPECT_FALSE(is_library_call({.operation = Operation::kScatter, .counts = counts}, kSite));
}

TEST(OperationPlan, OnlyShortAllreducesOfSeveralRanksAreLibraryCalls) {
  const auto allreduce = [](std::size_t count, int ranks, std::size_t most) {
    return is_library_call(
        {.operation = Operation::kAllreduce, .count = count, .type = DataType::kFloat32},
        {.rank = 0, .ranks = ranks, .most = most});
  };
  EXPECT_TRUE(allreduce(1023, 3, 10000));
  EXPECT_FALSE(allreduce(1024, 3, 10000));
  EXPECT_FALSE(allreduce(1, 2, 10000));
  EXPECT_FALSE(allreduce(101, 3, 100));
}

// Each pair of ranks has its own count. All ranks must decide alike, or they would wait for each
// other.
TEST(OperationPlan, UnequalAllToAllNeverDependsOnOneRanksCounts) {
  const std::vector<std::size_t> small = {1, 1};
  EXPECT_FALSE(
      is_library_call({.operation = Operation::kAllToAll, .counts = small, .receive_counts = small},
                      {.rank = 0, .ranks = 2, .most = 1000}));
}

TEST(OperationPlan, LongVectorsAreReducedInMessagesThatFit) {
  const Request request{
      .operation = Operation::kAllreduce, .count = 250, .type = DataType::kFloat32};
  EXPECT_EQ(message_elements(request, kSite), 100U);
  const collective::Schedule schedule = schedule_of(request, kSite);
  EXPECT_GT(schedule.step_count(), 0U);
  EXPECT_GT(schedule.bytes_sent(), 0U);
  const Site large{.rank = 1, .ranks = 4, .most = std::size_t{1} << 31};
  EXPECT_LT(message_elements(request, large), large.most);
}

// A length that differs between the two sides must be seen by MPI, so a message is not cut while it
// fits.
TEST(OperationPlan, AMessageIsOneStepWithTheTagOfTheProgram) {
  const Request send{.operation = Operation::kSend, .count = 25, .root = 3, .tag = 7};
  const Request receive{.operation = Operation::kReceive, .count = 25, .root = 3, .tag = 7};
  for (const Request& request : {send, receive}) {
    const collective::Schedule schedule = schedule_of(request, kSite);
    ASSERT_EQ(schedule.step_count(), 1U);
    ASSERT_EQ(schedule.step(0).size(), 1U);
    const collective::Action& action = schedule.step(0)[0];
    EXPECT_EQ(action.kind == collective::ActionKind::kSend, request.operation == Operation::kSend);
    EXPECT_EQ(action.peer, 3);
    EXPECT_EQ(action.message, 7U);
    EXPECT_EQ(action.block.bytes, 25 * size_of(request.type));
    EXPECT_EQ(message_elements(request, kSite), kSite.most);
  }
}

}  // namespace
}  // namespace tally::mpi
