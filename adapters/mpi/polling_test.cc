#include "adapters/mpi/polling.h"

#include <gtest/gtest.h>

namespace tally::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Polling, SpinsThenYieldsThenSleepsEverLongerUpToALimit) {
  EXPECT_EQ(rest_after(0, 100, microseconds(1)), (Rest{.pause = Pause::kSpin}));
  EXPECT_EQ(rest_after(99, 100, microseconds(50)), (Rest{.pause = Pause::kSpin}));
  EXPECT_EQ(rest_after(100, 100, microseconds(51)), (Rest{.pause = Pause::kYield}));
  EXPECT_EQ(rest_after(299, 100, microseconds(90)), (Rest{.pause = Pause::kYield}));
  const auto sleep_after = [](Duration waited) { return rest_after(5000, 100, waited).sleep; };
  EXPECT_EQ(sleep_after(microseconds(100)), microseconds(20));
  EXPECT_EQ(sleep_after(microseconds(1600)), microseconds(100));
  EXPECT_EQ(sleep_after(milliseconds(16)), milliseconds(1));
  EXPECT_EQ(sleep_after(std::chrono::minutes(5)), milliseconds(1));
}

TEST(Polling, NobodySpinsWhereRanksShareProcessors) {
  EXPECT_GT(spins_for(2, 2), 0);
  EXPECT_EQ(spins_for(3, 2), 0);
  EXPECT_EQ(rest_after(0, 0, microseconds(0)).pause, Pause::kYield);
}

}  // namespace
}  // namespace tally::mpi
