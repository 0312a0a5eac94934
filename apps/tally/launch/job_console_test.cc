#include "apps/tally/launch/job_console.h"

#include <gtest/gtest.h>

namespace tally::launch {
namespace {

TEST(JobConsole, PrefixesNameRankAndHostAndHaveColoursOnlyWhereWanted) {
  EXPECT_EQ(prefix_of(3, "", false), "[3] ");
  EXPECT_EQ(prefix_of(3, "b", false), "[3 b] ");
  EXPECT_EQ(prefix_of(0, "b", true), "\x1b[36m[0 b]\x1b[0m ");
  EXPECT_NE(prefix_of(0, "", true).substr(0, 5), prefix_of(1, "", true).substr(0, 5));
  EXPECT_EQ(prefix_of(12, "", true).substr(0, 5), prefix_of(0, "", true).substr(0, 5));
}

}  // namespace
}  // namespace tally::launch
