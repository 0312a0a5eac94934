#include "adapters/mpi/tiered_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "collective/communicator_conformance.h"

namespace tally::mpi {
namespace {

using collective::combined;
using collective::inputs;

constexpr std::size_t kLeastBytes = 400;

struct Hosts {
  int ranks;
  int first;  // ranks of the first host; the others are on a second
};
void PrintTo(const Hosts& hosts, std::ostream* out) {
  *out << hosts.first << " and " << hosts.ranks - hosts.first;
}

// Tiers made of communicators inside this process, without MPI.
class Tiered : public testing::TestWithParam<Hosts> {
 protected:
  void run(const std::function<void(Communicator&)>& body) const {
    collective::run_ranks(collective::Network::kInProcess, GetParam().ranks, [&](Job& job) {
      const Deadline by = Deadline::after(std::chrono::seconds(60));
      Communicator& world = job.world();
      auto all = world.split(0, world.rank(), by);
      auto inside = world.split(world.rank() < GetParam().first ? 0 : 1, world.rank(), by);
      ASSERT_TRUE(all.has_value() && inside.has_value());
      auto made = TieredCommunicator::make(
          *std::move(all), *std::move(inside),
          {.operation_timeout = std::chrono::seconds(60), .least_bytes = kLeastBytes}, by);
      ASSERT_TRUE(made.has_value()) << to_string(made.error());
      body(**made);
      ASSERT_TRUE(world.barrier().has_value());
    });
  }
};

TEST_P(Tiered, AllreduceCombinesInAndOutOfPlaceByEveryOperation) {
  run([](Communicator& world) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax}) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{99},
                                      std::size_t{101}, std::size_t{70001}}) {
        const std::vector<float> input = inputs<float>(world.rank(), count);
        std::vector<float> apart(count);
        std::vector<float> same = input;
        ASSERT_TRUE(world
                        .allreduce(std::span<const float>(input), std::span<float>(apart), op,
                                   {.algorithm = Algorithm::kHierarchical})
                        .has_value());
        ASSERT_TRUE(world.allreduce(std::span<float>(same), op).has_value());
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_NEAR(apart[i], combined(op, world.size(), i), 1e-5) << i;
        ASSERT_EQ(same, apart);
      }
    }
  });
}

TEST_P(Tiered, SmallOperationsGoByTheCommunicatorOfAllRanks) {
  run([](Communicator& world) {
    std::vector<float> small(kLeastBytes / sizeof(float) - 1, 1.0F);
    ASSERT_TRUE(world.allreduce(std::span<float>(small)).has_value());
    EXPECT_THAT(world.recent_operations(), testing::Not(testing::HasSubstr("by hierarchical")));
    std::vector<float> large(kLeastBytes / sizeof(float), 1.0F);
    ASSERT_TRUE(world.allreduce(std::span<float>(large)).has_value());
    EXPECT_THAT(world.recent_operations(),
                testing::HasSubstr("allreduce sum of 100 float32 by hierarchical: done"));
    EXPECT_THAT(large, testing::Each(static_cast<float>(world.size())));
  });
}

TEST_P(Tiered, StartedOperationsCompleteInOrderWithMessagesBesideThem) {
  run([](Communicator& world) {
    const Rank right = (world.rank() + 1) % world.size();
    const Rank left = (world.rank() + world.size() - 1) % world.size();
    std::vector<std::int32_t> message(10);
    Handle receive = world.start({.operation = Operation::kReceive,
                                  .output = message.data(),
                                  .count = message.size(),
                                  .type = DataType::kInt32,
                                  .root = left});
    std::mutex mutex;
    std::vector<int> order;
    std::vector<std::vector<float>> data(10, std::vector<float>(500, 1.0F));
    std::vector<Handle> handles;
    for (int i = 0; i < 10; ++i) {
      auto& vector = data[static_cast<std::size_t>(i)];
      handles.push_back(world.start({.operation = Operation::kAllreduce,
                                     .input = vector.data(),
                                     .output = vector.data(),
                                     .count = vector.size(),
                                     .type = DataType::kFloat32}));
      handles.back().then([&, i](const Result<void>&) {
        const std::lock_guard lock(mutex);
        order.push_back(i);
      });
    }
    ASSERT_TRUE(world.barrier().has_value());
    const std::vector<std::int32_t> sent(10, world.rank());
    ASSERT_TRUE(world.send(std::span<const std::int32_t>(sent), right).has_value());
    ASSERT_TRUE(receive.wait().has_value());
    for (Handle& handle : handles) ASSERT_TRUE(handle.wait().has_value());
    EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_THAT(message, testing::Each(left));
    EXPECT_THAT(data[9], testing::Each(static_cast<float>(world.size())));
  });
}

TEST_P(Tiered, SplitGivesTiersAgainOrOneHostsOwnCommunicator) {
  run([](Communicator& world) {
    const Deadline by = Deadline::after(std::chrono::seconds(60));
    auto reversed = world.split(0, -world.rank(), by);
    ASSERT_TRUE(reversed.has_value()) << to_string(reversed.error());
    EXPECT_EQ((*reversed)->rank(), world.size() - 1 - world.rank());
    auto alone = world.split(world.rank(), 0, by);
    ASSERT_TRUE(alone.has_value());
    EXPECT_EQ((*alone)->size(), 1);
    auto none = world.split(world.rank() == 0 ? -1 : 0, 0, by);
    ASSERT_TRUE(none.has_value());
    EXPECT_EQ(*none == nullptr, world.rank() == 0);
    std::vector<float> data(1000, 1.0F);
    ASSERT_TRUE((*reversed)->allreduce(std::span<float>(data)).has_value());
    EXPECT_THAT(data, testing::Each(static_cast<float>(world.size())));
  });
}

TEST_P(Tiered, RefusesAfterAnErrorButNotAfterNonsense) {
  run([](Communicator& world) {
    EXPECT_EQ(world.barrier({.algorithm = Algorithm::kRing}).error().code, ErrorCode::kInvalid);
    ASSERT_TRUE(world.barrier().has_value());
    if (world.rank() == 0) return;  // the others wait in vain
    std::vector<float> data(1000, 1.0F);
    const auto late = world.allreduce(std::span<float>(data), ReduceOp::kSum,
                                      {.by = Deadline::after(std::chrono::milliseconds(50))});
    ASSERT_FALSE(late.has_value());
    EXPECT_EQ(world.barrier().error().message, late.error().message);
    world.close();
    EXPECT_FALSE(world.barrier().has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Tiered,
                         testing::Values(Hosts{2, 1}, Hosts{4, 2}, Hosts{5, 3}, Hosts{5, 4}));

}  // namespace
}  // namespace tally::mpi
