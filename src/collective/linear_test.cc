#include "collective/algorithms.h"

#include "collective/schedule_test_support.h"

namespace tally::collective {
namespace {

// Rank r has (3r + count) mod 7 elements, so that some parts are empty.
std::vector<std::size_t> unequal_counts(int ranks, std::size_t count) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back((3 * static_cast<std::size_t>(r) + count) % 7);
  return counts;
}

TEST(LinearGather, GivesTheRootAllParts) {
  for (const int ranks : kRankCounts) {
    for (Rank root = 0; root < ranks; ++root) {
      const auto counts = unequal_counts(ranks, static_cast<std::size_t>(root));
      const Parts parts = Parts::of(counts, 4);
      const auto schedules =
          all_ranks(ranks, [&](Rank rank) { return linear_gather(parts, root, rank); });
      std::vector<RankMemory<std::int32_t>> memory;
      std::vector<std::int32_t> expected;
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto mine = samples(rank, counts[static_cast<std::size_t>(rank)]);
        expected.insert(expected.end(), mine.begin(), mine.end());
        memory.push_back({.input = mine});
        const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
        EXPECT_EQ(schedule.step_count(), 1U);
        EXPECT_EQ(schedule.messages_sent(), rank == root ? 0U : 1U);
      }
      auto& at_root = memory[static_cast<std::size_t>(root)];
      at_root.output.assign(expected.size(), 77);
      interpret(schedules, memory);
      EXPECT_EQ(at_root.output, expected) << ranks << " ranks, root " << root;
    }
  }
}

TEST(LinearScatter, GivesEachRankItsPart) {
  for (const int ranks : kRankCounts) {
    for (Rank root = 0; root < ranks; ++root) {
      const auto counts = unequal_counts(ranks, static_cast<std::size_t>(root));
      const Parts parts = Parts::of(counts, 4);
      const auto schedules =
          all_ranks(ranks, [&](Rank rank) { return linear_scatter(parts, root, rank); });
      const auto input = samples(root, parts.total_bytes() / 4);
      std::vector<RankMemory<std::int32_t>> memory;
      for (const std::size_t count : counts) {
        memory.push_back({.output = std::vector<std::int32_t>(count, 77)});
      }
      memory[static_cast<std::size_t>(root)].input = input;
      interpret(schedules, memory);
      auto begin = input.begin();
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto& mine = memory[static_cast<std::size_t>(rank)].output;
        EXPECT_TRUE(std::equal(mine.begin(), mine.end(), begin)) << rank << " of " << ranks;
        begin += static_cast<std::ptrdiff_t>(mine.size());
        const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
        EXPECT_EQ(schedule.step_count(), 1U);
        EXPECT_EQ(schedule.messages_sent(), rank == root ? static_cast<std::size_t>(ranks - 1) : 0);
      }
    }
  }
}

}  // namespace
}  // namespace tally::collective
