#include "adapters/mpi/polling.h"

#include <gtest/gtest.h>

namespace tally::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Polling, SpinsOrYieldsAndThenSleepsEverLongerUpToALimit) {
  const auto rest = [](int looks, int spins, Duration waited) {
    return rest_after(looks, spins, waited, milliseconds(20));
  };
  EXPECT_EQ(rest(0, 100, microseconds(1)), (Rest{.pause = Pause::kSpin}));
  EXPECT_EQ(rest(99, 100, milliseconds(50)), (Rest{.pause = Pause::kSpin}));
  EXPECT_EQ(rest(5000, 100, microseconds(19'999)), (Rest{.pause = Pause::kSpin}));
  EXPECT_EQ(rest(0, 0, microseconds(1)), (Rest{.pause = Pause::kYield}));
  EXPECT_EQ(rest(5000, 0, microseconds(19'999)), (Rest{.pause = Pause::kYield}));
  for (const int spins : {0, 100}) {
    EXPECT_EQ(rest(5000, spins, milliseconds(20)), (Rest{Pause::kSleep, microseconds(50)}));
    EXPECT_EQ(rest(5000, spins, milliseconds(100)), (Rest{Pause::kSleep, microseconds(100)}));
    EXPECT_EQ(rest(5000, spins, std::chrono::minutes(5)), (Rest{Pause::kSleep, milliseconds(1)}));
  }
}

TEST(Polling, LargeOperationsAreNotSleptThrough) {
  EXPECT_EQ(patience_for(0, 100), milliseconds(20));
  EXPECT_EQ(patience_for(100'000'000, 100), milliseconds(1020));
  EXPECT_EQ(patience_for(0, 0), microseconds(100));
  EXPECT_EQ(patience_for(100'000'000, 0), microseconds(1'000'100));
}

TEST(Polling, NobodySpinsWhereRanksShareProcessors) {
  EXPECT_GT(spins_for(2, 2), 0);
  EXPECT_EQ(spins_for(3, 2), 0);
  EXPECT_EQ(rest_after(0, 0, microseconds(0), milliseconds(1)).pause, Pause::kYield);
}

}  // namespace
}  // namespace tally::mpi
