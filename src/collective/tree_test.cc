#include "collective/algorithms.h"

#include <bit>

#include "collective/schedule_test_support.h"

namespace tally::collective {
namespace {

TEST(TreeAllreduce, Sums) { expect_allreduce_sums(tree_allreduce); }

TEST(TreeAllreduce, GivesTheSameBitsEverywhere) { expect_same_bits_everywhere(tree_allreduce); }

TEST(TreeAllreduce, CostsWhatTheFormulaSays) {
  for (const int ranks : kRankCounts) {
    const auto n = static_cast<std::size_t>(ranks);
    const auto rounds = static_cast<std::size_t>(std::bit_width(n - 1));
    const Vector vector{.count = 25, .element_bytes = 4};
    std::size_t messages = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = tree_allreduce(vector, rank, ranks);
      messages += schedule.messages_sent();
      EXPECT_EQ(schedule.bytes_sent(), schedule.messages_sent() * vector.bytes());
      EXPECT_LE(exchanges(schedule), 2 * rounds);
      if (rank == 0) {
        EXPECT_EQ(exchanges(schedule), 2 * rounds);
      }
    }
    EXPECT_EQ(messages, 2 * (n - 1));
  }
}

TEST(TreeBroadcast, GivesEveryRankTheRootsVector) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count : element_counts(ranks)) {
      for (Rank root = 0; root < ranks; ++root) {
        SCOPED_TRACE(fmt::format("ranks {} count {} root {}", ranks, count, root));
        const auto schedules = all_ranks(ranks, [&](Rank rank) {
          return tree_broadcast({.count = count, .element_bytes = 4}, root, rank, ranks);
        });
        std::vector<RankMemory<std::int32_t>> memory(static_cast<std::size_t>(ranks));
        std::size_t messages = 0;
        for (Rank rank = 0; rank < ranks; ++rank) {
          auto& mine = memory[static_cast<std::size_t>(rank)];
          if (rank == root) mine.input = samples(root, count);
          mine.output.assign(count, 77);
          messages += schedules[static_cast<std::size_t>(rank)].messages_sent();
        }
        interpret(schedules, memory);
        for (const auto& mine : memory) EXPECT_EQ(mine.output, samples(root, count));
        EXPECT_EQ(messages, static_cast<std::size_t>(ranks - 1));
      }
    }
  }
}

TEST(TreeReduce, GivesTheRootTheSum) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count : element_counts(ranks)) {
      for (Rank root = 0; root < ranks; ++root) {
        SCOPED_TRACE(fmt::format("ranks {} count {} root {}", ranks, count, root));
        const auto schedules = all_ranks(ranks, [&](Rank rank) {
          return tree_reduce({.count = count, .element_bytes = 4}, root, rank, ranks);
        });
        std::vector<RankMemory<std::int32_t>> memory(static_cast<std::size_t>(ranks));
        std::size_t messages = 0;
        for (Rank rank = 0; rank < ranks; ++rank) {
          auto& mine = memory[static_cast<std::size_t>(rank)];
          mine.input = samples(rank, count);
          if (rank == root) mine.output.assign(count, 77);
          messages += schedules[static_cast<std::size_t>(rank)].messages_sent();
        }
        interpret(schedules, memory, true);
        auto expected = summed_samples(ranks, count);
        for (auto& value : expected) value /= ranks;
        EXPECT_EQ(memory[static_cast<std::size_t>(root)].output, expected);
        for (Rank rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(memory[static_cast<std::size_t>(rank)].input, samples(rank, count));
        }
        EXPECT_EQ(messages, static_cast<std::size_t>(ranks - 1));
      }
    }
  }
}

// An in-place root has its input in the output buffer. The other ranks need no output buffer.
TEST(TreeReduce, WorksInPlaceAtTheRoot) {
  const auto schedules = all_ranks(
      6, [](Rank rank) { return tree_reduce({.count = 10, .element_bytes = 4}, 2, rank, 6); });
  std::vector<RankMemory<std::int32_t>> memory;
  for (Rank rank = 0; rank < 6; ++rank) memory.push_back({.input = samples(rank, 10)});
  memory[2] = {.output = samples(2, 10), .in_place = true};
  interpret(schedules, memory);
  EXPECT_EQ(memory[2].output, summed_samples(6, 10));
}

}  // namespace
}  // namespace tally::collective
