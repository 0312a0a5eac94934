#include "collective/algorithms.h"

#include <bit>

#include "collective/schedule_test_support.h"

namespace tally::collective {
namespace {

TEST(HalvingDoubling, Sums) { expect_allreduce_sums(halving_doubling_allreduce); }

TEST(HalvingDoubling, GivesTheSameBitsEverywhere) {
  expect_same_bits_everywhere(halving_doubling_allreduce);
}

TEST(HalvingDoubling, CostsWhatTheFormulaSaysForPowersOfTwo) {
  for (const std::size_t n : {1, 2, 4, 8, 16, 64}) {
    const auto log2_n = static_cast<std::size_t>(std::countr_zero(n));
    const Vector vector{.count = n * 10, .element_bytes = 4};
    for (std::size_t rank = 0; rank < n; ++rank) {
      const Schedule schedule =
          halving_doubling_allreduce(vector, static_cast<Rank>(rank), static_cast<int>(n));
      EXPECT_EQ(schedule.step_count(), n == 1 ? 1 : 2 * log2_n);
      EXPECT_EQ(schedule.messages_sent(), 2 * log2_n);
      EXPECT_EQ(schedule.bytes_sent(), 2 * (n - 1) * vector.bytes() / n);
      EXPECT_EQ(schedule.scratch_bytes(), 0U);
    }
  }
}

// With 7 ranks, ranks 0, 2 and 4 fold into 1, 3 and 5, which then run with rank 6 as a group of
// four.
TEST(HalvingDoubling, FoldsTheRanksAboveAPowerOfTwo) {
  const Vector vector{.count = 40, .element_bytes = 4};
  const std::size_t all = vector.bytes();
  const std::size_t core = 2 * all * 3 / 4;
  const std::size_t messages[] = {1, 5, 1, 5, 1, 5, 4};
  const std::size_t steps[] = {2, 6, 2, 6, 2, 6, 4};
  const std::size_t bytes[] = {all, core + all, all, core + all, all, core + all, core};
  for (Rank rank = 0; rank < 7; ++rank) {
    const Schedule schedule = halving_doubling_allreduce(vector, rank, 7);
    EXPECT_EQ(schedule.messages_sent(), messages[rank]) << rank;
    EXPECT_EQ(schedule.step_count(), steps[rank]) << rank;
    EXPECT_EQ(schedule.bytes_sent(), bytes[rank]) << rank;
  }
}

}  // namespace
}  // namespace tally::collective
