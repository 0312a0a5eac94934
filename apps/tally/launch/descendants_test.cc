#include "apps/tally/launch/descendants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::launch {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Descendants, AreAllBelowAndNobodyElse) {
  const std::map<pid_t, pid_t> parent_of = {{1, 0},  {10, 1}, {11, 10}, {12, 10},
                                            {5, 12}, {20, 1}, {21, 20}, {2, 0}};
  EXPECT_THAT(descendants_of(10, parent_of), UnorderedElementsAre(11, 12, 5));
  EXPECT_THAT(descendants_of(21, parent_of), IsEmpty());
  EXPECT_THAT(descendants_of(1, parent_of), UnorderedElementsAre(10, 11, 12, 5, 20, 21));
  EXPECT_THAT(descendants_of(99, parent_of), IsEmpty());
}

// A look at the processes is not made at one moment: numbers may have been given anew in between.
TEST(Descendants, ACircleEnds) {
  EXPECT_THAT(descendants_of(10, {{10, 11}, {11, 10}}), UnorderedElementsAre(11));
}

}  // namespace
}  // namespace tally::launch
