#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/communicator_conformance.h"

namespace tally::collective {
namespace {

// Ranks that share memory see each other's writes. Other ranks see only their own.
TEST_P(CommunicatorConformance, SharedBuffersAreSeenByThoseWhoShareMemory) {
  run([this](Communicator& communicator) {
    const Rank self = communicator.rank();
    const std::size_t count = 10 + static_cast<std::size_t>(self);
    auto buffer = *communicator.allocate(count * sizeof(int));
    std::fill_n(buffer.as<int>().begin(), count, 100 + self);
    const auto views = communicator.share(buffer, Deadline::after(std::chrono::seconds(30)));
    ASSERT_TRUE(views.has_value()) << to_string(views.error());
    ASSERT_EQ(views->size(), static_cast<std::size_t>(ranks()));
    ASSERT_TRUE(communicator.barrier().has_value());
    for (Rank rank = 0; rank < ranks(); ++rank) {
      const std::span<std::byte> view = (*views)[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(!view.empty() || (!one_host() && rank != self));
      if (view.empty()) continue;
      ASSERT_EQ(view.size(), (10 + static_cast<std::size_t>(rank)) * sizeof(int));
      EXPECT_EQ(reinterpret_cast<const int*>(view.data())[9], 100 + rank);
    }
    ASSERT_TRUE(communicator.barrier().has_value());
  });
}

TEST_P(CommunicatorConformance, NobodyLeavesABarrierBeforeAllHaveEntered) {
  std::atomic<int>& entered = counter();
  run([&entered](Communicator& world) {
    for (int round = 1; round <= 50; ++round) {
      entered.fetch_add(1);
      ASSERT_TRUE(world.barrier().has_value());
      ASSERT_GE(entered.load(), round * world.size());
    }
  });
}

TEST_P(CommunicatorConformance, MessagesWithTagsFindTheirReceivers) {
  run([](Communicator& world) {
    const Rank right = (world.rank() + 1) % world.size();
    const Rank left = (world.rank() + world.size() - 1) % world.size();
    if (world.size() == 1) return;
    // The receives start before the sends, and their tags are in a different order.
    std::vector<float> big(300000);
    std::vector<float> small(3);
    std::vector<float> second(3);
    Handle get_big = world.start({.operation = Operation::kReceive,
                                  .output = big.data(),
                                  .count = big.size(),
                                  .type = DataType::kFloat32,
                                  .root = left,
                                  .tag = 2});
    Handle get_small = world.start({.operation = Operation::kReceive,
                                    .output = small.data(),
                                    .count = 3,
                                    .type = DataType::kFloat32,
                                    .root = left,
                                    .tag = 1});
    const std::vector<float> one(3, 1.0F);
    const std::vector<float> two(3, 2.0F);
    const std::vector<float> many = inputs<float>(world.rank(), big.size());
    ASSERT_TRUE(world.send(std::span<const float>(one), right, 1).has_value());
    ASSERT_TRUE(world.send(std::span<const float>(two), right, 1).has_value());
    ASSERT_TRUE(world.send(std::span<const float>(many), right, 2).has_value());
    ASSERT_TRUE(world.receive(std::span<float>(second), left, 1).has_value());
    ASSERT_TRUE(get_small.wait().has_value());
    ASSERT_TRUE(get_big.wait().has_value());
    EXPECT_EQ(small, one);
    EXPECT_EQ(second, two);
    EXPECT_EQ(big, inputs<float>(left, big.size()));
  });
}

TEST_P(CommunicatorConformance, ManyOperationsInFlightCompleteInTheOrderOfIssue) {
  run([](Communicator& world) {
    constexpr std::size_t kOperations = 40;
    std::vector<std::vector<float>> data;
    std::vector<Handle> handles;
    std::mutex mutex;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < kOperations; ++i)
      data.push_back(inputs<float>(world.rank(), 100 * i));
    for (std::size_t i = 0; i < kOperations; ++i) {
      handles.push_back(world.start({.operation = Operation::kAllreduce,
                                     .input = data[i].data(),
                                     .output = data[i].data(),
                                     .count = data[i].size(),
                                     .type = DataType::kFloat32}));
      handles.back().then([&, i](const Result<void>& outcome) {
        EXPECT_TRUE(outcome.has_value());
        const std::lock_guard lock(mutex);
        order.push_back(i);
      });
    }
    // A blocking call runs after the operations that are already started.
    ASSERT_TRUE(world.barrier().has_value());
    for (Handle& handle : handles) {
      EXPECT_TRUE(handle.poll());
      ASSERT_TRUE(handle.wait().has_value());
    }
    for (std::size_t i = 0; i < kOperations; ++i) {
      EXPECT_EQ(order[i], i);
      for (std::size_t k = 0; k < data[i].size(); ++k)
        ASSERT_EQ(data[i][k], static_cast<float>(combined(ReduceOp::kSum, world.size(), k)));
    }
  });
}

TEST_P(CommunicatorConformance, SplitMakesWorkingGroupsByColourAndKey) {
  run([](Communicator& world) {
    const Deadline by = Deadline::after(std::chrono::seconds(60));
    auto half = world.split(world.rank() % 2, -world.rank(), by);
    ASSERT_TRUE(half.has_value()) << to_string(half.error());
    Communicator& group = **half;
    std::vector<Rank> same;
    for (Rank rank = world.size() - 1; rank >= 0; --rank)
      if (rank % 2 == world.rank() % 2) same.push_back(rank);
    ASSERT_EQ(group.size(), static_cast<int>(same.size()));
    ASSERT_EQ(same[static_cast<std::size_t>(group.rank())], world.rank());
    // Use both communicators at the same time, with large and small messages.
    for (const std::size_t count : {std::size_t{10}, std::size_t{200000}}) {
      std::vector<float> ours(count, static_cast<float>(world.rank()));
      std::vector<float> all(count, 1.0F);
      Handle handle = world.start({.operation = Operation::kAllreduce,
                                   .input = all.data(),
                                   .output = all.data(),
                                   .count = count,
                                   .type = DataType::kFloat32});
      ASSERT_TRUE(group.allreduce(std::span<float>(ours)).has_value());
      ASSERT_TRUE(handle.wait().has_value());
      const auto sum = static_cast<float>(std::accumulate(same.begin(), same.end(), 0));
      EXPECT_THAT(ours, testing::Each(sum));
      EXPECT_THAT(all, testing::Each(static_cast<float>(world.size())));
    }
    auto none = world.split(world.rank() == 0 ? -1 : 0, 0, by);
    ASSERT_TRUE(none.has_value());
    EXPECT_EQ(*none == nullptr, world.rank() == 0);
  });
}

// An invalid argument fails the call, and later calls still work.
TEST_P(CommunicatorConformance, NonsenseIsRefusedAndHarmsNothing) {
  run([](Communicator& world) {
    std::vector<float> data(10);
    EXPECT_EQ(world.broadcast(std::span<float>(data), world.size()).error().code,
              ErrorCode::kInvalid);
    EXPECT_EQ(world.run({.operation = Operation::kAllreduce, .count = 4}).error().code,
              ErrorCode::kInvalid);
    const std::span<float> all(data);
    EXPECT_EQ(
        world
            .allreduce(std::span<const float>(all.subspan(0, 5)), all.subspan(2, 5), ReduceOp::kSum)
            .error()
            .code,
        ErrorCode::kInvalid);
    EXPECT_EQ(world.barrier({.algorithm = Algorithm::kRing}).error().code, ErrorCode::kInvalid);
    EXPECT_TRUE(world.barrier().has_value());
  });
}

TEST_P(CommunicatorConformance, DifferentCountsAreAMismatchThatNamesBothSides) {
  if (ranks() == 1) return;
  run([](Communicator& world) {
    std::vector<float> data(world.rank() == 1 ? 5 : 8);
    const auto outcome = world.allreduce(std::span<float>(data));
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kMismatch) << to_string(outcome.error());
    EXPECT_THAT(outcome.error().message,
                testing::HasSubstr("rank 1 called allreduce sum of 5 float32"));
    EXPECT_THAT(outcome.error().message, testing::HasSubstr("called allreduce sum of 8 float32"));
    // The communicator then refuses every operation with the same error.
    EXPECT_EQ(world.barrier().error().message, outcome.error().message);
  });
}

TEST_P(CommunicatorConformance, DifferentOperationsAreAMismatch) {
  if (ranks() == 1) return;
  run([](Communicator& world) {
    std::vector<float> data(200000);
    // The last rank calls another operation. Its broadcast may complete before it notices the
    // mismatch.
    const bool odd_one = world.rank() + 1 == world.size();
    Result<void> outcome = odd_one ? world.broadcast(std::span<float>(data), world.rank())
                                   : world.allreduce(std::span<float>(data));
    if (odd_one && outcome.has_value()) outcome = world.barrier();
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kMismatch) << to_string(outcome.error());
  });
}

// One rank does not call the operation: the others time out at the deadline and name it.
TEST_P(CommunicatorConformance, ARankThatStaysAwayIsNamedAtTheDeadline) {
  if (ranks() == 1) return;
  std::atomic<int>& given_up = counter();
  run([&given_up](Communicator& world) {
    const Rank absent = world.size() - 1;
    // The ranks start together: another one that is late would be named instead.
    ASSERT_TRUE(world.barrier().has_value());
    if (world.rank() == absent) {
      while (given_up < absent) std::this_thread::yield();
      return;
    }
    std::vector<float> data(100000);
    const auto outcome = world.allreduce(std::span<float>(data), ReduceOp::kSum,
                                         {.by = Deadline::after(std::chrono::milliseconds(500))});
    ++given_up;
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout) << to_string(outcome.error());
    EXPECT_EQ(outcome.error().peer, absent) << to_string(outcome.error());
    EXPECT_THAT(world.recent_operations(),
                testing::HasSubstr(fmt::format("not arrived: {}", absent)));
  });
}

TEST_P(CommunicatorConformance, CloseEndsWhatIsUnderWay) {
  std::atomic<int>& done = counter();
  run([&done](Communicator& world) {
    if (world.size() == 1) return;
    std::vector<float> data(10);
    Handle handle = world.start({.operation = Operation::kReceive,
                                 .output = data.data(),
                                 .count = data.size(),
                                 .type = DataType::kFloat32,
                                 .root = (world.rank() + 1) % world.size()});
    world.close();
    EXPECT_EQ(handle.wait().error().code, ErrorCode::kClosed);
    EXPECT_EQ(world.barrier().error().code, ErrorCode::kClosed);
    ++done;  // no rank leaves while a receive of another rank could notice it
    while (done < world.size()) std::this_thread::yield();
  });
}

}  // namespace
}  // namespace tally::collective
