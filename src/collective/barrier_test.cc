#include "collective/algorithms.h"

#include <bit>

#include "collective/schedule_test_support.h"

namespace tally::collective {
namespace {

TEST(DisseminationBarrier, CostsWhatTheFormulaSays) {
  for (const int ranks : kRankCounts) {
    const auto rounds = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
    const auto schedules =
        all_ranks(ranks, [&](Rank rank) { return dissemination_barrier(rank, ranks); });
    std::vector<RankMemory<std::uint8_t>> memory(static_cast<std::size_t>(ranks));
    interpret(schedules, memory);
    for (const Schedule& schedule : schedules) {
      EXPECT_EQ(schedule.step_count(), rounds);
      EXPECT_EQ(schedule.messages_sent(), rounds);
      EXPECT_EQ(schedule.bytes_sent(), 0U);
    }
  }
}

// A rank knows of every rank that its messages tell it about. At the end every rank must know of
// all ranks.
TEST(DisseminationBarrier, HearsOfEveryRank) {
  for (const int ranks : kRankCounts) {
    const auto n = static_cast<std::size_t>(ranks);
    std::vector<std::vector<bool>> heard(n, std::vector<bool>(n, false));
    for (std::size_t rank = 0; rank < n; ++rank) heard[rank][rank] = true;
    const std::size_t rounds = dissemination_barrier(0, ranks).step_count();
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto before = heard;
      for (std::size_t rank = 0; rank < n; ++rank) {
        const Schedule schedule = dissemination_barrier(static_cast<Rank>(rank), ranks);
        for (const Action& action : schedule.step(round)) {
          if (action.kind != ActionKind::kReceive) continue;
          const auto& theirs = before[static_cast<std::size_t>(action.peer)];
          for (std::size_t i = 0; i < n; ++i) heard[rank][i] = heard[rank][i] || theirs[i];
        }
      }
    }
    EXPECT_EQ(heard, std::vector<std::vector<bool>>(n, std::vector<bool>(n, true))) << ranks;
  }
}

}  // namespace
}  // namespace tally::collective
