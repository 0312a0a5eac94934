#include "base/counted.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(Counted, AddsThePluralExceptToOne) {
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(2, "step"), "2 steps");
}

}  // namespace
}  // namespace tally
