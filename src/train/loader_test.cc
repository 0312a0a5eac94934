#include "train/loader.h"

#include <atomic>
#include <barrier>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tally::train {
namespace {

using data::Order;
using data::Position;

// Samples of two int64: the index and the argument of `augment`. Counts concurrent readers.
class Numbers final : public data::Dataset {
 public:
  explicit Numbers(std::uint64_t size) : size_(size) {
    shape_ = {.input = {2},
              .input_type = DataType::kInt64,
              .target = {},
              .target_type = DataType::kInt64};
  }
  std::uint64_t size() const override { return size_; }
  const data::SampleShape& shape() const override { return shape_; }
  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    reads_.fetch_add(1);
    if (index == bad)
      return Error{.code = ErrorCode::kCorrupt, .message = fmt::format("sample {} is bad", index)};
    const std::uint64_t values[2] = {index, augment.next()};
    std::memcpy(input.data(), values, sizeof values);
    std::memcpy(target.data(), &index, sizeof index);
    return {};
  }
  std::uint64_t reads() const { return reads_.load(); }

  std::uint64_t bad = ~std::uint64_t{0};

 private:
  std::uint64_t size_;
  data::SampleShape shape_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

using LoadedValues = std::vector<std::uint64_t>;

LoadedValues values_of(std::span<const std::byte> bytes) {
  LoadedValues values(bytes.size() / 8);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The batches of a loader in `steps` steps, with their positions.
std::vector<std::pair<LoadedValues, Position>> taken(Loader& loader, int steps) {
  std::vector<std::pair<LoadedValues, Position>> result;
  for (int step = 0; step < steps; ++step) {
    const auto batch = loader.next();
    EXPECT_TRUE(batch.has_value());
    EXPECT_EQ(batch->input.size(), batch->samples * 16);
    EXPECT_EQ(batch->target.size(), batch->samples * 8);
    EXPECT_EQ(batch->after, loader.position());
    result.emplace_back(values_of(batch->input), batch->after);
  }
  return result;
}

TEST(Loader, GivesTheOrdersBatchesWhateverTheThreads) {
  const Numbers numbers(101);
  const data::OrderOptions options{.size = 101, .seed = 5, .batch = 8, .rank = 1, .workers = 2};
  Order order(options);
  Loader alone(numbers, Order(options), {.threads = 0});
  const auto expected = taken(alone, 40);
  for (const auto& [values, after] : expected) {
    const auto indices = order.next();
    ASSERT_EQ(values.size(), indices.size() * 2);
    for (std::size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(values[2 * i], indices[i]);
    EXPECT_EQ(after, order.position());
  }
  for (const int threads : {1, 2, 3, 8})
    for (const int prefetch : {1, 2, 7}) {
      Loader loader(numbers, Order(options), {.threads = threads, .prefetch = prefetch});
      EXPECT_EQ(taken(loader, 40), expected) << threads << " threads, prefetch " << prefetch;
    }
}

TEST(Loader, AugmentationIsBySampleAndEpochNotByWorker) {
  const Numbers numbers(24);
  const auto by_sample = [&numbers](int workers) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> seen;  // epoch, index
    for (Rank rank = 0; rank < workers; ++rank) {
      Loader loader(numbers, Order({.size = 24, .batch = 4, .rank = rank, .workers = workers}),
                    {.threads = 2, .seed = 9});
      Position before;
      while (before.epoch < 2) {
        const auto batch = loader.next();
        const LoadedValues values = values_of(batch->input);
        for (std::size_t i = 0; i < values.size(); i += 2)
          seen[{before.epoch, values[i]}] = values[i + 1];
        before = batch->after;
      }
    }
    return seen;
  };
  const auto one = by_sample(1);
  EXPECT_EQ(one.size(), 48U);
  EXPECT_EQ(one, by_sample(3));
  std::set<std::uint64_t> distinct;
  for (const auto& [place, value] : one) distinct.insert(value);
  EXPECT_EQ(distinct.size(), 48U);
}

TEST(Loader, ResumesFromItsPosition) {
  const Numbers numbers(50);
  const data::OrderOptions options{.size = 50, .batch = 7};
  Loader whole(numbers, Order(options), {.threads = 2});
  taken(whole, 11);
  Order order(options);
  ASSERT_TRUE(order.seek(whole.position()).has_value());
  Loader resumed(numbers, order, {.threads = 3});
  EXPECT_EQ(resumed.position(), whole.position());
  EXPECT_EQ(taken(resumed, 20), taken(whole, 20));
}

TEST(Loader, EndOfAnEpochIsMarkedAndAPartMayBeEmpty) {
  const Numbers numbers(5);
  Loader loader(numbers, Order({.size = 5, .batch = 2, .rank = 1, .workers = 2}), {.threads = 2});
  const auto first = loader.next();
  EXPECT_EQ(first->samples, 2U);
  EXPECT_FALSE(first->last_of_epoch);
  const auto second = loader.next();
  EXPECT_EQ(second->samples, 0U);
  EXPECT_TRUE(second->last_of_epoch);
  EXPECT_EQ(second->after, (Position{1, 0}));
}

TEST(Loader, ErrorComesInItsPlaceAndStays) {
  for (const int threads : {0, 1, 4}) {
    Numbers numbers(40);
    numbers.bad = 13;
    Loader loader(numbers, Order({.size = 40, .batch = 4, .shuffle = false}), {.threads = threads});
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(loader.next().has_value());
    for (int again = 0; again < 3; ++again) {
      const auto batch = loader.next();
      ASSERT_FALSE(batch.has_value());
      EXPECT_EQ(batch.error().code, ErrorCode::kCorrupt);
      EXPECT_EQ(batch.error().message, "sample 13 is bad");
      EXPECT_EQ(loader.position(), (Position{0, 12}));
    }
  }
}

// A dataset whose reads block until the test releases them.
class Gate final : public data::Dataset {
 public:
  explicit Gate(std::ptrdiff_t readers) : arrived_(readers + 1), leave_(readers + 1) {
    shape_ = {.input = {1},
              .input_type = DataType::kUInt8,
              .target = {},
              .target_type = DataType::kUInt8};
  }
  std::uint64_t size() const override { return 1000; }
  const data::SampleShape& shape() const override { return shape_; }
  Result<void> read(std::uint64_t, Rng&, std::span<std::byte>,
                    std::span<std::byte>) const override {
    if (reads.fetch_add(1) < 3) {
      arrived_.arrive_and_wait();
      leave_.arrive_and_wait();
    }
    return {};
  }
  void all_are_reading() { arrived_.arrive_and_wait(); }
  void let_go() { leave_.arrive_and_wait(); }
  mutable std::atomic<int> reads{0};

 private:
  data::SampleShape shape_;
  mutable std::barrier<> arrived_;
  mutable std::barrier<> leave_;
};

// Three reads are in progress when the destructor begins; it ends when they do.
TEST(Loader, EndsWhileThreadsAreReading) {
  Gate gate(3);
  auto loader = std::make_unique<Loader>(gate, Order({.size = 1000, .batch = 100}),
                                         LoaderOptions{.threads = 3});
  gate.all_are_reading();
  std::jthread ending([&loader] { loader.reset(); });
  gate.let_go();
  ending.join();
  EXPECT_EQ(loader, nullptr);
}

TEST(Loader, ReadsNoFurtherAheadThanPrefetch) {
  const Numbers numbers(1000);
  Loader loader(numbers, Order({.size = 1000, .batch = 10}), {.threads = 4, .prefetch = 3});
  for (int step = 0; step < 20; ++step) {
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_LE(numbers.reads(), static_cast<std::uint64_t>(step + 1 + 3) * 10);
  }
}

TEST(Loader, MemoryIsUsedAgain) {
  const Numbers numbers(1000);
  Loader loader(numbers, Order({.size = 1000, .batch = 10}), {.threads = 2, .prefetch = 2});
  std::set<const std::byte*> places;
  for (int step = 0; step < 50; ++step) places.insert(loader.next()->input.data());
  EXPECT_LE(places.size(), 3U);
}

// The memory of all batches comes from the caller, once, and large enough for the largest batch.
TEST(Loader, BatchesLieInTheMemoryOfTheCaller) {
  const Numbers numbers(101);
  const data::OrderOptions options{
      .size = 101, .seed = 5, .parts = {3, 8}, .rank = 1, .workers = 2};
  Loader alone(numbers, Order(options), {.threads = 0});
  const auto expected = taken(alone, 40);
  std::map<const std::byte*, std::size_t> given;
  Loader loader(numbers, Order(options),
                {.threads = 2, .prefetch = 3, .allocate = [&given](std::size_t bytes) {
                   std::shared_ptr<std::byte> memory(new std::byte[bytes],
                                                     std::default_delete<std::byte[]>());
                   given[memory.get()] = bytes;
                   return memory;
                 }});
  EXPECT_EQ(given.size(), 8U);
  EXPECT_EQ(taken(loader, 40), expected);
  const auto batch = loader.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(given.count(batch->input.data()), 1U);
  EXPECT_EQ(given[batch->target.data()], 8 * sizeof(std::uint64_t));
  EXPECT_EQ(given.size(), 8U);
}

TEST(Loader, EmptyDatasetGivesEmptyBatches) {
  const Numbers numbers(0);
  Loader loader(numbers, Order({.size = 0, .batch = 10}), {});
  const auto batch = loader.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->samples, 0U);
  EXPECT_TRUE(batch->last_of_epoch);
}

TEST(Loader, WaitingIsCountedWhenTheCallerReads) {
  const Numbers numbers(100000);
  Loader loader(numbers, Order({.size = 100000, .batch = 100000}), {.threads = 0});
  EXPECT_EQ(loader.waited(), Duration::zero());
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_GT(loader.waited(), Duration::zero());
}

}  // namespace
}  // namespace tally::train
