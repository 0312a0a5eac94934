#include "base/check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace tally {
namespace {

enum class Colour { kRed, kGreen };

TEST(CheckDeathTest, PrintsTheOperandsOfAComparison) {
  const std::size_t sent = 3;
  const int negative = -4;
  const std::string name = "adam";
  EXPECT_DEATH(TALLY_CHECK(sent == 4), "check failed: sent == 4 \\(3 == 4\\) at .*check_test");
  EXPECT_DEATH(TALLY_CHECK(negative >= 0), "negative >= 0 \\(-4 >= 0\\)");
  EXPECT_DEATH(TALLY_CHECK(0.5 < 0.25), "\\(0.5 < 0.25\\)");
  EXPECT_DEATH(TALLY_CHECK(name != "adam"), "\\(\"adam\" != \"adam\"\\)");
  EXPECT_DEATH(TALLY_CHECK(Colour::kRed == Colour::kGreen), "\\(0 == 1\\)");
  EXPECT_DEATH(TALLY_CHECK(std::chrono::milliseconds(5) <= std::chrono::milliseconds(2)),
               "\\(5 <= 2\\)");
  EXPECT_DEATH(TALLY_CHECK(&name == nullptr), "\\(0x[0-9a-f]+ == nullptr\\)");
  EXPECT_DEATH(TALLY_CHECK(sent + 1 == 2 * sent), "\\(4 == 6\\)");
}

TEST(CheckDeathTest, PrintsOnlyTheConditionWhereThereIsNothingToShow) {
  const std::vector<int> values = {1};
  EXPECT_DEATH(TALLY_CHECK(values.empty()), "check failed: values.empty\\(\\) at ");
  EXPECT_DEATH(TALLY_CHECK(values == std::vector<int>{}),
               "check failed: values == std::vector<int>\\{\\} at ");
}

TEST(CheckDeathTest, PrintsTheFirstComparisonOfSeveral) {
  const int low = 1;
  EXPECT_DEATH(TALLY_CHECK(low == 2 && low < 5), "\\(1 == 2\\)");
  EXPECT_DEATH(TALLY_CHECK(low == 2 || low > 5), "\\(1 == 2\\)");
  EXPECT_DEATH(
      {
        TALLY_CHECK(low == 2 || low < 5);
        TALLY_CHECK(low == 1 && low > 5);
      },
      "check failed: low == 1 && low > 5 at ");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int count = 0;
  TALLY_CHECK(++count == 1);
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace tally
