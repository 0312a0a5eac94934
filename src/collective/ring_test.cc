#include "collective/algorithms.h"

#include <numeric>

#include "collective/schedule_test_support.h"

namespace tally::collective {
namespace {

// Unequal parts, some of them empty, that add up to `count`.
std::vector<std::size_t> ring_counts(int ranks, std::size_t count) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks), 0);
  Rng rng(count * 31 + static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < counts.size() && count > 0; ++i) {
    counts[i] = i + 1 == counts.size() ? count : rng.below(count + 1);
    count -= counts[i];
  }
  return counts;
}

std::vector<std::vector<std::size_t>> part_cases(int ranks, std::size_t count) {
  std::vector<std::size_t> even;
  for (int i = 0; i < ranks; ++i) even.push_back(part_of(count, ranks, i).size());
  return {even, ring_counts(ranks, count)};
}

TEST(RingAllreduce, Sums) { expect_allreduce_sums(ring_allreduce); }

TEST(RingAllreduce, GivesTheSameBitsEverywhere) { expect_same_bits_everywhere(ring_allreduce); }

TEST(RingAllreduce, CostsWhatTheFormulaSays) {
  for (const int ranks : kRankCounts) {
    const auto n = static_cast<std::size_t>(ranks);
    const Vector vector{.count = n * 10, .element_bytes = 4};
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = ring_allreduce(vector, rank, ranks);
      EXPECT_EQ(schedule.step_count(), ranks == 1 ? 1 : 2 * (n - 1));
      EXPECT_EQ(schedule.messages_sent(), 2 * (n - 1));
      EXPECT_EQ(schedule.bytes_sent(), 2 * (n - 1) * vector.bytes() / n);
      EXPECT_EQ(schedule.scratch_bytes(), 0U);
    }
  }
}

TEST(RingAllreduce, SendsAsManyMessagesForAnEmptyVector) {
  const Schedule schedule = ring_allreduce({.count = 0, .element_bytes = 4}, 2, 5);
  EXPECT_EQ(schedule.messages_sent(), 8U);
  EXPECT_EQ(schedule.bytes_sent(), 0U);
}

constexpr RingSegments kShortSegments{.bytes = 48, .at_once = 3};

TEST(SegmentedRingAllreduce, Sums) {
  expect_allreduce_sums([](const Vector& vector, Rank rank, int ranks) {
    return segmented_ring_allreduce(vector, rank, ranks, kShortSegments);
  });
}

// Segments change when the parts of a chunk are sent, but not the order of the additions.
TEST(SegmentedRingAllreduce, GivesTheBitsOfTheWholeRing) {
  constexpr std::size_t kCount = 1000;
  for (const int ranks : kRankCounts) {
    const auto result_of = [&](const RingSegments& segments) {
      std::vector<RankMemory<float>> memory(static_cast<std::size_t>(ranks));
      for (Rank rank = 0; rank < ranks; ++rank) {
        auto& mine = memory[static_cast<std::size_t>(rank)];
        mine.output.resize(kCount);
        for (std::size_t i = 0; i < kCount; ++i) mine.input.push_back(adversarial(rank, i));
      }
      interpret(all_ranks(ranks,
                          [&](Rank rank) {
                            return segmented_ring_allreduce({.count = kCount, .element_bytes = 4},
                                                            rank, ranks, segments);
                          }),
                memory);
      return memory[0].output;
    };
    const std::vector<float> whole = result_of({.bytes = 4 * kCount});
    const std::vector<float> cut = result_of(kShortSegments);
    EXPECT_EQ(0, std::memcmp(whole.data(), cut.data(), kCount * sizeof(float))) << ranks;
  }
}

TEST(SegmentedRingAllreduce, SendsNoMoreBytesThanTheWholeRing) {
  const Vector vector{.count = 5 * 100, .element_bytes = 4};
  const Schedule schedule = segmented_ring_allreduce(vector, 1, 5, kShortSegments);
  EXPECT_EQ(schedule.bytes_sent(), ring_allreduce(vector, 1, 5).bytes_sent());
  EXPECT_EQ(schedule.messages_sent(), 2U * 4U * 9U);  // a chunk of 400 bytes is 9 segments
}

TEST(RingReduceScatter, GivesEachRankItsPartOfTheSum) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count : element_counts(ranks)) {
      for (const auto& counts : part_cases(ranks, count)) {
        SCOPED_TRACE(fmt::format("ranks {} count {}", ranks, count));
        const Parts parts = Parts::of(counts, 4);
        const auto schedules =
            all_ranks(ranks, [&](Rank rank) { return ring_reduce_scatter(parts, rank); });
        std::vector<RankMemory<std::int32_t>> memory;
        for (Rank rank = 0; rank < ranks; ++rank) {
          memory.push_back(
              {.input = samples(rank, count),
               .output = std::vector<std::int32_t>(counts[static_cast<std::size_t>(rank)], 77)});
        }
        interpret(schedules, memory, true);
        const auto sum = summed_samples(ranks, count);
        std::size_t begin = 0;
        for (Rank rank = 0; rank < ranks; ++rank) {
          const auto& mine = memory[static_cast<std::size_t>(rank)];
          for (std::size_t i = 0; i < mine.output.size(); ++i) {
            ASSERT_EQ(mine.output[i], sum[begin + i] / ranks) << "rank " << rank << " at " << i;
          }
          EXPECT_EQ(mine.input, samples(rank, count)) << "rank " << rank;
          begin += mine.output.size();
        }
      }
    }
  }
}

TEST(RingReduceScatter, CostsWhatTheFormulaSays) {
  for (const int ranks : kRankCounts) {
    const auto n = static_cast<std::size_t>(ranks);
    const Parts parts = Parts::equal({.count = 10, .element_bytes = 4}, ranks);
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = ring_reduce_scatter(parts, rank);
      EXPECT_EQ(exchanges(schedule), n - 1);
      EXPECT_EQ(schedule.step_count(), n);
      EXPECT_EQ(schedule.messages_sent(), n - 1);
      EXPECT_EQ(schedule.bytes_sent(), (n - 1) * 40);
      EXPECT_LE(schedule.scratch_bytes(), 80U);
    }
  }
}

TEST(RingAllgather, GivesEveryRankAllParts) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count : element_counts(ranks)) {
      for (const auto& counts : part_cases(ranks, count)) {
        SCOPED_TRACE(fmt::format("ranks {} count {}", ranks, count));
        const Parts parts = Parts::of(counts, 4);
        const auto schedules =
            all_ranks(ranks, [&](Rank rank) { return ring_allgather(parts, rank); });
        std::vector<RankMemory<std::int32_t>> memory;
        std::vector<std::int32_t> expected;
        for (Rank rank = 0; rank < ranks; ++rank) {
          const auto mine = samples(rank, counts[static_cast<std::size_t>(rank)]);
          expected.insert(expected.end(), mine.begin(), mine.end());
          memory.push_back({.input = mine, .output = std::vector<std::int32_t>(count, 77)});
        }
        interpret(schedules, memory);
        for (const auto& mine : memory) EXPECT_EQ(mine.output, expected);
      }
    }
  }
}

TEST(RingAllgather, CostsWhatTheFormulaSays) {
  for (const int ranks : kRankCounts) {
    const auto n = static_cast<std::size_t>(ranks);
    const Parts parts = Parts::equal({.count = 10, .element_bytes = 4}, ranks);
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = ring_allgather(parts, rank);
      EXPECT_EQ(schedule.step_count(), ranks == 1 ? 1 : n - 1);
      EXPECT_EQ(schedule.messages_sent(), n - 1);
      EXPECT_EQ(schedule.bytes_sent(), (n - 1) * 40);
    }
  }
}

}  // namespace
}  // namespace tally::collective
