#include "group/refusals.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

using namespace std::chrono_literals;

TEST(Refusals, FewAreSaidOneByOne) {
  Refusals refusals;
  EXPECT_EQ(refusals.add("1.2.3.4:5", "it speaks nonsense", 100s),
            "a connection from 1.2.3.4:5 was refused: it speaks nonsense");
  EXPECT_TRUE(refusals.add("1.2.3.4:6", "x", 101s).has_value());
}

TEST(Refusals, ManyAreSaidInOneSentence) {
  Refusals refusals;
  int said = 0;
  for (int i = 0; i < 1000; ++i) said += refusals.add("a", "x", 100s).has_value() ? 1 : 0;
  EXPECT_EQ(said, 3);
  EXPECT_FALSE(refusals.tick(101s).has_value());
  EXPECT_EQ(refusals.tick(106s), "997 more like it: a connection from a was refused: x");
  EXPECT_FALSE(refusals.tick(120s).has_value());
}

TEST(Refusals, ScanThatGoesOnIsSaidNowAndThen) {
  Refusals refusals;
  int said = 0;
  for (int i = 0; i < 6000; ++i)
    said += refusals.add("a", "x", 100s + i * 10ms).has_value() ? 1 : 0;
  EXPECT_LE(said, 3 + 60 / 5 + 1);
  EXPECT_GE(said, 60 / 5);
}

}  // namespace
}  // namespace tally::group
