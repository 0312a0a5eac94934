#include "tally/accumulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "collective/test_jobs.h"

namespace tally {
namespace {

using collective::Network;
using collective::run_ranks;
using testing::ElementsAre;

// Worked example: g1 = [1, 2] and g2 = [3, 4] average to [2, 3]; a learning rate of 0.1 gives the
// update -[0.2, 0.3].
TEST(Accumulator, TwoGradientsBecomeOneUpdateAndThenItIsZeroAgain) {
  run_ranks(Network::kInProcess, 2, [](Job& job) {
    auto accumulator = *Accumulator::make(job.world(), {.size = 2});
    const std::vector<float> gradient =
        job.rank() == 0 ? std::vector<float>{1, 2} : std::vector<float>{3, 4};
    std::vector<float> parameters = {0, 0};
    ASSERT_TRUE(accumulator->add({.gradient = gradient, .samples = 1, .version = 0}).has_value());
    const auto applied = accumulator->complete([&](std::span<const float> average) {
      EXPECT_THAT(std::vector<float>(average.begin(), average.end()), ElementsAre(2, 3));
      for (std::size_t i = 0; i < 2; ++i) parameters[i] -= 0.1F * average[i];
    });
    ASSERT_TRUE(applied.has_value()) << to_string(applied.error());
    EXPECT_THAT(parameters, ElementsAre(-0.1F * 2, -0.1F * 3));
    EXPECT_EQ(accumulator->version(), 1U);
    // The first round leaves no residue.
    if (job.rank() == 0) {
      ASSERT_TRUE(accumulator->add({.gradient = gradient, .samples = 1, .version = 1}).has_value());
    }
    ASSERT_TRUE(accumulator
                    ->complete([](std::span<const float> average) {
                      EXPECT_THAT(std::vector<float>(average.begin(), average.end()),
                                  ElementsAre(1, 2));
                    })
                    .has_value());
  });
}

// Rank r has r + 1 samples of value r: the average weighs samples, not ranks.
TEST(Accumulator, AveragesBySamples) {
  run_ranks(Network::kTcp, 3, [](Job& job) {
    auto accumulator = *Accumulator::make(job.world(), {.size = 1});
    const std::vector<float> gradient = {static_cast<float>(job.rank())};
    const auto samples = static_cast<std::uint64_t>(job.rank() + 1);
    ASSERT_TRUE(accumulator->add({.gradient = gradient, .samples = samples}).has_value());
    ASSERT_TRUE(accumulator
                    ->complete([](std::span<const float> average) {
                      EXPECT_FLOAT_EQ(average[0], (0.0F * 1 + 1.0F * 2 + 2.0F * 3) / 6);
                    })
                    .has_value());
  });
}

TEST(Accumulator, StaleAndMisshapenContributionsChangeNothing) {
  run_ranks(Network::kInProcess, 1, [](Job& job) {
    auto accumulator = *Accumulator::make(job.world(), {.size = 2, .hands = 2});
    const std::vector<float> good = {1, 2};
    const std::vector<float> bad = {1, 2, 3};
    ASSERT_TRUE(accumulator->add({.gradient = good, .samples = 1}).has_value());
    EXPECT_EQ(accumulator->add({.gradient = good, .samples = 1, .version = 1}).error().code,
              ErrorCode::kStale);
    EXPECT_EQ(accumulator->add({.gradient = bad, .samples = 1}).error().code, ErrorCode::kInvalid);
    EXPECT_EQ(accumulator->add({.gradient = good, .samples = 1, .hand = 2}).error().code,
              ErrorCode::kInvalid);
    ASSERT_TRUE(accumulator
                    ->complete([](std::span<const float> average) {
                      EXPECT_THAT(std::vector<float>(average.begin(), average.end()),
                                  ElementsAre(1, 2));
                    })
                    .has_value());
    EXPECT_EQ(accumulator->complete([](std::span<const float>) {}).error().code,
              ErrorCode::kInvalid);
    EXPECT_EQ(accumulator->version(), 1U);
  });
}

// Threads add in any order; the result always has the same bits.
TEST(Accumulator, ManyHandsGiveTheSameBitsInEveryRun) {
  std::vector<float> first;
  for (int run = 0; run < 10; ++run) {
    run_ranks(Network::kInProcess, 1, [&](Job& job) {
      constexpr int kHands = 4;
      auto accumulator = *Accumulator::make(job.world(), {.size = 100, .hands = kHands});
      std::vector<std::thread> threads;
      for (int hand = 0; hand < kHands; ++hand) {
        threads.emplace_back([&accumulator, hand] {
          std::vector<float> gradient(100);
          for (std::size_t i = 0; i < 100; ++i)
            gradient[i] = 1.0F / static_cast<float>(i + 3 * static_cast<std::size_t>(hand) + 1);
          for (int k = 0; k < 5; ++k)
            EXPECT_TRUE(
                accumulator->add({.gradient = gradient, .samples = 3, .hand = hand}).has_value());
        });
      }
      for (auto& thread : threads) thread.join();
      ASSERT_TRUE(accumulator
                      ->complete([&first](std::span<const float> average) {
                        if (first.empty()) first.assign(average.begin(), average.end());
                        EXPECT_EQ(std::memcmp(first.data(), average.data(), 400), 0);
                      })
                      .has_value());
    });
  }
}

}  // namespace
}  // namespace tally
