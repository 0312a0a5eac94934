#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "base/rng.h"
#include "collective/schedule.h"
#include "collective/schedule_interpreter_test_support.h"

namespace tally::collective {

inline const std::vector<int> kRankCounts{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17};

inline std::set<std::size_t> element_counts(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return {0, 1, 2, n - 1, n, n + 1, 1000};
}

// Values that differ by rank and index. They are so small that no sum of 17 overflows.
inline std::int32_t sample(Rank rank, std::size_t index) {
  return static_cast<std::int32_t>(
             Rng(static_cast<std::uint64_t>(rank) * 7919 + index).below(1000)) -
         500;
}

inline std::vector<std::int32_t> samples(Rank rank, std::size_t count) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = sample(rank, i);
  return values;
}

// The sum of all ranks' samples().
inline std::vector<std::int32_t> summed_samples(int ranks, std::size_t count) {
  std::vector<std::int32_t> sum(count, 0);
  for (Rank rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += sample(rank, i);
  }
  return sum;
}

// Values whose sum depends on the order of addition.
inline float adversarial(Rank rank, std::size_t index) {
  Rng rng(static_cast<std::uint64_t>(rank) * 104729 + index);
  const float scale[] = {1e20F, -1e20F, 1.0F, 1e-20F, 3e7F, -0.0F};
  return scale[rng.below(6)] * static_cast<float>(rng.uniform());
}

// Makes the schedule of every rank with make(rank).
template <typename Make>
std::vector<Schedule> all_ranks(int ranks, Make make) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < ranks; ++rank) schedules.push_back(make(rank));
  return schedules;
}

// Runs the schedules to completion; a fault fails the test.
template <typename T>
void interpret(const std::vector<Schedule>& schedules, std::vector<RankMemory<T>>& memory,
               bool average = false) {
  Interpreter<T> interpreter(
      schedules, memory, [](T a, T b) { return static_cast<T>(a + b); }, average);
  const Result<void> outcome = interpreter.run();
  EXPECT_TRUE(outcome.has_value()) << to_string(outcome.error());
}

// The number of steps that send or receive.
inline std::size_t exchanges(const Schedule& schedule) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < schedule.step_count(); ++i) {
    const auto step = schedule.step(i);
    count += std::any_of(step.begin(), step.end(),
                         [](const Action& action) { return action.peer != kNoRank; });
  }
  return count;
}

using Allreduce = Schedule (*)(const Vector& vector, Rank rank, int ranks);

// Checks sum and average on every rank, in place and out of place. An input that is out of place
// must not change.
inline void expect_allreduce_sums(Allreduce allreduce) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count : element_counts(ranks)) {
      for (const bool in_place : {false, true}) {
        for (const bool average : {false, true}) {
          SCOPED_TRACE(fmt::format("ranks {} count {} in place {} average {}", ranks, count,
                                   in_place, average));
          const auto schedules = all_ranks(ranks, [&](Rank rank) {
            return allreduce({.count = count, .element_bytes = 4}, rank, ranks);
          });
          std::vector<RankMemory<std::int32_t>> memory;
          for (Rank rank = 0; rank < ranks; ++rank) {
            const auto input = samples(rank, count);
            memory.push_back(
                in_place ? RankMemory<std::int32_t>{.output = input, .in_place = true}
                         : RankMemory<std::int32_t>{
                               .input = input, .output = std::vector<std::int32_t>(count, 77)});
          }
          interpret(schedules, memory, average);
          auto expected = summed_samples(ranks, count);
          if (average) {
            for (auto& value : expected) value /= ranks;
          }
          for (Rank rank = 0; rank < ranks; ++rank) {
            const auto& mine = memory[static_cast<std::size_t>(rank)];
            EXPECT_EQ(mine.output, expected) << "rank " << rank;
            if (!in_place) {
              EXPECT_EQ(mine.input, samples(rank, count)) << "rank " << rank;
            }
          }
        }
      }
    }
  }
}

inline void expect_same_bits_everywhere(Allreduce allreduce) {
  for (const int ranks : kRankCounts) {
    constexpr std::size_t kCount = 1000;
    const auto schedules = all_ranks(ranks, [&](Rank rank) {
      return allreduce({.count = kCount, .element_bytes = 4}, rank, ranks);
    });
    std::vector<RankMemory<float>> memory(static_cast<std::size_t>(ranks));
    for (Rank rank = 0; rank < ranks; ++rank) {
      auto& mine = memory[static_cast<std::size_t>(rank)];
      mine.output.resize(kCount);
      for (std::size_t i = 0; i < kCount; ++i) mine.input.push_back(adversarial(rank, i));
    }
    interpret(schedules, memory, true);
    for (const auto& mine : memory) {
      EXPECT_EQ(0, std::memcmp(mine.output.data(), memory[0].output.data(), kCount * sizeof(float)))
          << ranks << " ranks";
    }
  }
}

}  // namespace tally::collective
