#include "apps/tally/launch/descendants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::launch {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Descendants, AreAllBelowAndNobodyElse) {
  const Processes all = {{1, {}},   {10, {1}}, {11, {10}}, {12, {10}},
                         {5, {12}}, {20, {1}}, {21, {20}}, {2, {}}};
  EXPECT_THAT(descendants_of(10, all), UnorderedElementsAre(11, 12, 5));
  EXPECT_THAT(descendants_of(21, all), IsEmpty());
  EXPECT_THAT(descendants_of(1, all), UnorderedElementsAre(10, 11, 12, 5, 20, 21));
  EXPECT_THAT(descendants_of(99, all), IsEmpty());
}

// A look at the processes is not made at one moment: numbers may have been given anew in between.
TEST(Descendants, ACircleEnds) {
  EXPECT_THAT(descendants_of(10, {{10, {11}}, {11, {10}}}), UnorderedElementsAre(11));
}

// 10 was a shell, which started 11 in its own session 7 and 12 in another before it became what it
// is.
TEST(Descendants, WhoWasThereBeforeIsSparedWithAllThatIsTheirs) {
  const Processes before = {{10, {1, 7}}, {11, {10, 7}}, {12, {10, 12}}};
  const Bystanders spared = bystanders_of(10, before);
  EXPECT_THAT(spared.processes, UnorderedElementsAre(11, 12));
  EXPECT_THAT(spared.sessions, UnorderedElementsAre(7, 12));
  // 13 is a child of 11; 14 was one, and 15 of 12; 20 is ours with its child 21, and 22 was left by
  // one of ours.
  const Processes later = {{10, {1, 7}},   {11, {10, 7}},  {12, {10, 12}},
                           {13, {11, 13}}, {14, {10, 7}},  {15, {10, 12}},
                           {20, {10, 20}}, {21, {20, 20}}, {22, {10, 22}}};
  EXPECT_THAT(descendants_of(10, later, spared), UnorderedElementsAre(20, 21, 22));
}

}  // namespace
}  // namespace tally::launch
