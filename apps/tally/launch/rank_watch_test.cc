#include "apps/tally/launch/rank_watch.h"

#include <gtest/gtest.h>

namespace tally::launch {
namespace {

using namespace std::chrono_literals;

TEST(RankWatch, ServersWaitAsLongAsLostAfterButAtLeastFiveSeconds) {
  EXPECT_EQ(silence_limit_of(0s), 0s);
  EXPECT_EQ(silence_limit_of(100ms), 5s);
  EXPECT_EQ(silence_limit_of(5s), 5s);
  EXPECT_EQ(silence_limit_of(20s), 20s);
  EXPECT_EQ(silence_limit_of(20s + 1ns), 20001ms);
}

}  // namespace
}  // namespace tally::launch
