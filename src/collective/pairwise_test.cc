#include "collective/algorithms.h"

#include "collective/schedule_test_support.h"

namespace tally::collective {
namespace {

// The number of elements that rank `from` sends to rank `to`; zero for some pairs.
std::size_t pair_count(Rank from, Rank to) {
  return static_cast<std::size_t>(5 * from + 3 * to) % 4;
}

TEST(PairwiseAllToAll, BringsEachPartToItsRank) {
  for (const int ranks : kRankCounts) {
    std::vector<std::vector<std::size_t>> send_counts(static_cast<std::size_t>(ranks));
    std::vector<std::vector<std::size_t>> receive_counts(static_cast<std::size_t>(ranks));
    std::vector<RankMemory<std::int32_t>> memory(static_cast<std::size_t>(ranks));
    std::vector<std::vector<std::int32_t>> expected(static_cast<std::size_t>(ranks));
    for (Rank from = 0; from < ranks; ++from) {
      for (Rank to = 0; to < ranks; ++to) {
        const auto f = static_cast<std::size_t>(from);
        const auto t = static_cast<std::size_t>(to);
        const auto part = samples(from * 100 + to, pair_count(from, to));
        send_counts[f].push_back(part.size());
        receive_counts[t].push_back(part.size());
        memory[f].input.insert(memory[f].input.end(), part.begin(), part.end());
        expected[t].insert(expected[t].end(), part.begin(), part.end());
      }
    }
    const auto schedules = all_ranks(ranks, [&](Rank rank) {
      const auto r = static_cast<std::size_t>(rank);
      memory[r].output.resize(expected[r].size());
      return pairwise_all_to_all(Parts::of(send_counts[r], 4), Parts::of(receive_counts[r], 4),
                                 rank);
    });
    interpret(schedules, memory);
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      EXPECT_EQ(memory[rank].output, expected[rank]) << rank << " of " << ranks;
    }
  }
}

TEST(PairwiseAllToAll, CostsWhatTheFormulaSays) {
  for (const int ranks : kRankCounts) {
    const auto n = static_cast<std::size_t>(ranks);
    const Parts parts = Parts::equal({.count = 10, .element_bytes = 4}, ranks);
    const Schedule schedule = pairwise_all_to_all(parts, parts, ranks - 1);
    EXPECT_EQ(schedule.step_count(), ranks == 1 ? 1 : n - 1);
    EXPECT_EQ(schedule.messages_sent(), n - 1);
    EXPECT_EQ(schedule.bytes_sent(), (n - 1) * 40);
  }
}

}  // namespace
}  // namespace tally::collective
