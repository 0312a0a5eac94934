#include "data/order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tally::data {
namespace {

using Indices = std::vector<std::uint64_t>;

Indices all_below(std::uint64_t size) {
  Indices result(size);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

// The orders of all workers of one job.
class Crew {
 public:
  Crew(int workers, OrderOptions options) {
    options.workers = workers;
    for (options.rank = 0; options.rank < workers; ++options.rank) orders_.emplace_back(options);
  }
  // The batches of one step, ordered by rank.
  std::vector<Indices> parts() {
    std::vector<Indices> result;
    for (Order& order : orders_) result.push_back(order.next());
    for (const Order& order : orders_) {
      EXPECT_EQ(order.position(), orders_[0].position());
      EXPECT_EQ(order.at_epoch_end(), orders_[0].at_epoch_end());
    }
    return result;
  }
  Indices step() {
    Indices result;
    for (const Indices& part : parts()) result.insert(result.end(), part.begin(), part.end());
    return result;
  }
  Indices epoch() {
    Indices result;
    do {
      const Indices more = step();
      result.insert(result.end(), more.begin(), more.end());
    } while (!orders_[0].at_epoch_end());
    return result;
  }
  Order& first() { return orders_[0]; }
  void seek(const Position& position) {
    for (Order& order : orders_) EXPECT_TRUE(order.seek(position).has_value());
  }

 private:
  std::vector<Order> orders_;
};

Indices sorted(Indices values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Order, PartitionGivesEachSampleOncePerEpoch) {
  for (const std::uint64_t size : {1U, 2U, 3U, 7U, 16U, 17U, 100U, 257U, 1000U})
    for (const int workers : {1, 2, 3, 4, 7, 16})
      for (const std::uint64_t batch : {1U, 2U, 5U, 64U}) {
        SCOPED_TRACE(fmt::format("size {} workers {} batch {}", size, workers, batch));
        Crew crew(workers, {.size = size, .seed = 3, .batch = batch});
        const Indices first = crew.epoch();
        EXPECT_EQ(sorted(first), all_below(size));
        EXPECT_EQ(crew.first().position(), (Position{1, 0}));
        const Indices second = crew.epoch();
        EXPECT_EQ(sorted(second), all_below(size));
        if (size > 16) {
          EXPECT_NE(first, second);
        }
      }
}

TEST(Order, StreamGivesEachSampleOncePerEpochInFileOrder) {
  for (const std::uint64_t size : {1U, 7U, 100U})
    for (const int workers : {1, 3, 8})
      for (const std::uint64_t batch : {1U, 4U}) {
        Crew crew(workers, {.strategy = Strategy::kStream, .size = size, .batch = batch});
        EXPECT_EQ(crew.epoch(), all_below(size));
      }
}

TEST(Order, StreamGoesBatchByBatchInTurn) {
  Crew crew(3, {.strategy = Strategy::kStream, .size = 10, .batch = 2});
  EXPECT_EQ(crew.parts(), (std::vector<Indices>{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(crew.parts(), (std::vector<Indices>{{6, 7}, {8, 9}, {}}));
  EXPECT_TRUE(crew.first().at_epoch_end());
}

TEST(Order, StepsOfManyWorkersAreThoseOfOneWithTheWholeBatch) {
  for (const int workers : {2, 3, 4, 5})
    for (const std::uint64_t size : {60U, 61U, 119U, 1000U}) {
      Crew many(workers, {.size = size, .seed = 9, .batch = 6});
      Crew one(1, {.size = size, .seed = 9, .batch = 6U * static_cast<unsigned>(workers)});
      for (int step = 0; step < 50; ++step) EXPECT_EQ(many.step(), one.step());
    }
}

TEST(Order, RestOfAnEpochIsSharedEvenly) {
  Crew crew(4, {.size = 4 * 8 + 6, .batch = 8});
  crew.parts();
  const auto parts = crew.parts();
  EXPECT_EQ(parts[0].size(), 2U);
  EXPECT_EQ(parts[1].size(), 2U);
  EXPECT_EQ(parts[2].size(), 1U);
  EXPECT_EQ(parts[3].size(), 1U);
  EXPECT_TRUE(crew.first().at_epoch_end());
}

TEST(Order, FewerSamplesThanWorkersLeaveEmptyParts) {
  Crew crew(4, {.size = 2, .batch = 8});
  const auto parts = crew.parts();
  EXPECT_EQ(parts[0].size() + parts[1].size(), 2U);
  EXPECT_TRUE(parts[2].empty());
  EXPECT_TRUE(parts[3].empty());
  EXPECT_EQ(crew.first().steps_per_epoch(), 1U);
}

TEST(Order, ReplicateGivesEveryWorkerAllDataInAnOrderOfItsOwn) {
  std::set<Indices> orders;
  for (Rank rank = 0; rank < 3; ++rank) {
    Order order(
        {.strategy = Strategy::kReplicate, .size = 50, .batch = 8, .rank = rank, .workers = 3});
    EXPECT_EQ(order.steps_per_epoch(), 7U);
    Indices seen;
    for (int step = 0; step < 7; ++step) {
      EXPECT_FALSE(order.at_epoch_end());
      const Indices part = order.next();
      seen.insert(seen.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(order.at_epoch_end());
    EXPECT_EQ(sorted(seen), all_below(50));
    orders.insert(seen);
  }
  EXPECT_EQ(orders.size(), 3U);
}

TEST(Order, WithoutShufflingPartitionIsInFileOrder) {
  Crew crew(3, {.size = 20, .batch = 3, .shuffle = false});
  EXPECT_EQ(crew.epoch(), all_below(20));
}

TEST(Order, SeedAndEpochDecide) {
  const auto first_epoch = [](std::uint64_t seed) {
    return Crew(1, {.size = 100, .seed = seed, .batch = 7}).epoch();
  };
  EXPECT_EQ(first_epoch(5), first_epoch(5));
  EXPECT_NE(first_epoch(5), first_epoch(6));
}

TEST(Order, ResumesExactly) {
  Crew whole(2, {.size = 103, .seed = 4, .batch = 5});
  for (int step = 0; step < 14; ++step) whole.step();  // ends in the second epoch
  const Position saved = whole.first().position();
  EXPECT_EQ(saved.epoch, 1U);
  Crew resumed(2, {.size = 103, .seed = 4, .batch = 5});
  resumed.seek(saved);
  for (int step = 0; step < 40; ++step) EXPECT_EQ(resumed.parts(), whole.parts());
}

// The samples before and after a resume together form one epoch, for any number of workers.
TEST(Order, ResumesWithAnotherNumberOfWorkersAndBatch) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kStream})
    for (const int later : {1, 2, 3, 5, 8})
      for (const std::uint64_t batch : {1U, 4U, 9U}) {
        Crew before(3, {.strategy = strategy, .size = 101, .seed = 8, .batch = 4});
        Indices seen;
        for (int step = 0; step < 5; ++step) {
          const Indices more = before.step();
          seen.insert(seen.end(), more.begin(), more.end());
        }
        Crew after(later, {.strategy = strategy, .size = 101, .seed = 8, .batch = batch});
        after.seek(before.first().position());
        const Indices rest = after.epoch();
        seen.insert(seen.end(), rest.begin(), rest.end());
        EXPECT_EQ(seen,
                  Crew(1, {.strategy = strategy, .size = 101, .seed = 8, .batch = 1}).epoch());
        EXPECT_EQ(after.first().position(), (Position{1, 0}));
      }
}

TEST(Order, EndOfAnEpochIsTheBeginningOfTheNext) {
  Order order({.size = 10, .batch = 4});
  ASSERT_TRUE(order.seek({3, 10}).has_value());
  EXPECT_EQ(order.position(), (Position{4, 0}));
  EXPECT_FALSE(order.at_epoch_end());
  Order same({.size = 10, .batch = 4});
  ASSERT_TRUE(same.seek({4, 0}).has_value());
  EXPECT_EQ(order.next(), same.next());
}

TEST(Order, PositionBeyondTheDataIsRefused) {
  Order order({.size = 10, .batch = 4});
  const auto result = order.seek({0, 11});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  EXPECT_NE(result.error().message.find("11"), std::string::npos);
  EXPECT_EQ(order.position(), (Position{0, 0}));
}

TEST(Order, EmptyDatasetHasNoStepsAndEndsAtOnce) {
  Order order({.size = 0, .batch = 4});
  EXPECT_EQ(order.steps_per_epoch(), 0U);
  EXPECT_TRUE(order.next().empty());
  EXPECT_TRUE(order.at_epoch_end());
  EXPECT_TRUE(order.seek({2, 0}).has_value());
}

TEST(Order, OneSampleIsAnEpoch) {
  Order order({.size = 1, .batch = 4});
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
    EXPECT_EQ(order.next(), Indices{0});
    EXPECT_TRUE(order.at_epoch_end());
    EXPECT_EQ(order.position(), (Position{epoch, 0}));
  }
}

TEST(Strategy, HasTheWordOfThePlan) {
  EXPECT_EQ(to_string(Strategy::kPartition), "partition");
  EXPECT_EQ(to_string(Strategy::kReplicate), "replicate");
  EXPECT_EQ(to_string(Strategy::kStream), "stream");
}

// Two of three workers go on with the steps of all three.
TEST(Order, FewerWorkersWithTheSameStepReadTheSameSamples) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kStream}) {
    SCOPED_TRACE(to_string(strategy));
    const OrderOptions options{.strategy = strategy, .size = 100, .batch = 5};
    Crew three(3, options);
    OrderOptions shared = options;
    shared.step = 15;
    Crew two(2, shared);
    EXPECT_EQ(two.first().steps_per_epoch(), three.first().steps_per_epoch());
    for (int step = 0; step < 15; ++step) {
      const std::vector<Indices> parts = two.parts();
      Indices read = parts[0];
      read.insert(read.end(), parts[1].begin(), parts[1].end());
      EXPECT_EQ(read, three.step()) << step;
      EXPECT_LE(parts[0].size(), 8U);
      EXPECT_LE(parts[1].size(), 8U);
    }
    EXPECT_EQ(two.first().position(), three.first().position());
  }
}

TEST(Order, GivenPartsAreTakenInTheOrderOfRanks) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kStream}) {
    SCOPED_TRACE(to_string(strategy));
    Crew crew(3, {.strategy = strategy, .size = 25, .parts = {6, 1, 3}, .shuffle = false});
    EXPECT_EQ(crew.first().steps_per_epoch(), 3U);
    EXPECT_EQ(crew.parts(), (std::vector<Indices>{{0, 1, 2, 3, 4, 5}, {6}, {7, 8, 9}}));
    crew.parts();
    // Five samples are left: 3, 0.5 and 1.5 of them.
    EXPECT_EQ(crew.parts(), (std::vector<Indices>{{20, 21, 22}, {}, {23, 24}}));
    EXPECT_TRUE(crew.first().at_epoch_end());
  }
}

TEST(Order, GivenPartsReadTheSamplesOfEqualParts) {
  for (const std::uint64_t size : {1U, 11U, 60U, 119U, 1000U}) {
    Crew equal(3, {.size = size, .seed = 9, .batch = 20});
    Crew given(3, {.size = size, .seed = 9, .parts = {41, 1, 18}});
    for (int step = 0; step < 60; ++step) EXPECT_EQ(given.step(), equal.step());
  }
}

// The workers change their parts at any position, also in the middle of an epoch.
TEST(Order, EachSampleOccursOncePerEpochWhileThePartsChange) {
  const std::vector<std::vector<std::uint64_t>> courses = {
      {}, {9, 1, 2}, {1, 10, 1}, {4, 4, 4}, {7, 2, 3}};
  Position position;
  Indices seen;
  for (int step = 0; position.epoch < 4; ++step) {
    Crew crew(3, {.size = 101,
                  .seed = 8,
                  .batch = 4,
                  .parts = courses[static_cast<std::size_t>(step) % courses.size()]});
    crew.seek(position);
    const Indices more = crew.step();
    seen.insert(seen.end(), more.begin(), more.end());
    if (crew.first().at_epoch_end()) {
      EXPECT_EQ(sorted(seen), all_below(101)) << position.epoch;
      seen.clear();
    }
    position = crew.first().position();
  }
}

TEST(Order, NoBatchIsLargerThanTheLargest) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kReplicate, Strategy::kStream})
    for (const std::uint64_t size : {2U, 47U, 100U})
      for (const bool given : {false, true})
        for (const int rank : {0, 1, 2}) {
          const std::vector<std::uint64_t> parts{7, 1, 4};
          Order order({.strategy = strategy,
                       .size = size,
                       .batch = 4,
                       .parts = given ? parts : std::vector<std::uint64_t>(),
                       .rank = rank,
                       .workers = 3});
          std::size_t largest = 0;
          for (int step = 0; step < 30; ++step) largest = std::max(largest, order.next().size());
          EXPECT_GE(order.largest_batch(), largest);
          if (size >= 47) {
            EXPECT_EQ(order.largest_batch(), largest);
          }
        }
}

TEST(Order, SamplesUntilAPositionAreThoseThatNextReturns) {
  for (const Strategy strategy : {Strategy::kPartition, Strategy::kReplicate, Strategy::kStream}) {
    SCOPED_TRACE(to_string(strategy));
    for (const int rank : {0, 1, 2}) {
      Order order({.strategy = strategy, .size = 47, .batch = 4, .rank = rank, .workers = 3});
      order.next();
      const Order begin = order;
      std::uint64_t read = 0;
      for (int step = 0; step < 20; ++step) {
        EXPECT_EQ(begin.samples_until(order.position()), read) << step;
        read += order.next().size();
      }
      EXPECT_EQ(order.samples_until(begin.position()), 0U);
    }
  }
}

TEST(OrderDeathTest, RefusesStepsWhoseShareWouldOverflow) {
  constexpr std::uint64_t kTooMany = std::uint64_t{1} << 32;
  EXPECT_EQ(Order({.size = 2 * kTooMany, .parts = {kTooMany - 1}}).largest_batch(), kTooMany - 1);
  EXPECT_DEATH(Order({.size = 2 * kTooMany, .parts = {kTooMany}}), "check failed");
  EXPECT_DEATH(Order({.size = 2 * kTooMany, .batch = kTooMany}), "check failed");
}

}  // namespace
}  // namespace tally::data
