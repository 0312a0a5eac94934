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

// The process table is not read atomically: the kernel may reuse a process id during the scan.
TEST(Descendants, ACircleEnds) {
  EXPECT_THAT(descendants_of(10, {{10, {11}}, {11, {10}}}), UnorderedElementsAre(11));
}

// Process 10 was a shell. It started 11 in its own session 7 and 12 in another session, and then
// replaced itself with the launcher by exec().
TEST(Descendants, WhoWasThereBeforeIsSparedWithAllThatIsTheirs) {
  const Processes before = {{10, {1, 7}}, {11, {10, 7}}, {12, {10, 12}}};
  const Bystanders spared = bystanders_of(10, before);
  EXPECT_THAT(spared.processes, UnorderedElementsAre(11, 12));
  EXPECT_THAT(spared.sessions, UnorderedElementsAre(7, 12));
  // 13 is a child of 11. 14 and 15 are orphans of 11 and 12, adopted by 10. 20 and its child 21
  // belong to the launcher, and 22 is an orphan of a process that the launcher started.
  const Processes later = {{10, {1, 7}},   {11, {10, 7}},  {12, {10, 12}},
                           {13, {11, 13}}, {14, {10, 7}},  {15, {10, 12}},
                           {20, {10, 20}}, {21, {20, 20}}, {22, {10, 22}}};
  EXPECT_THAT(descendants_of(10, later, spared), UnorderedElementsAre(20, 21, 22));
}

}  // namespace
}  // namespace tally::launch
