#include "exchange/lane/lane_schedule.h"

#include <gtest/gtest.h>

namespace tally::exchange {
namespace {

using enum LaneStage;

TEST(LaneSchedule, SendsTheLastThatIsReadyIfThereIsRoomForIt) {
  const LaneSchedule schedule{
      .by_priority = true, .bytes_in_flight = 100, .bytes = {60, 30, 40, 500}};
  struct Case {
    std::vector<LaneStage> stages;
    std::optional<std::size_t> next;
  };
  const std::vector<Case> cases = {
      {{kIdle, kIdle, kIdle, kIdle}, {}},
      {{kReady, kIdle, kIdle, kIdle}, 0},
      {{kReady, kReady, kReady, kIdle}, 2},
      // 60 + 40 bytes are exactly the limit.
      {{kUnderWay, kReady, kReady, kIdle}, 2},
      // 90 + 40 bytes exceed the limit; no other bucket replaces the one that is needed first.
      {{kUnderWay, kUnderWay, kReady, kIdle}, {}},
      {{kReady, kUnderWay, kUnderWay, kIdle}, {}},
      {{kThere, kUnderWay, kReady, kIdle}, 2},
      // A bucket above the limit travels alone.
      {{kIdle, kUnderWay, kIdle, kReady}, {}},
      {{kIdle, kThere, kIdle, kReady}, 3},
      {{kThere, kThere, kThere, kThere}, {}},
  };
  for (const Case& each : cases) EXPECT_EQ(next_by_priority(schedule, each.stages), each.next);
}

TEST(LaneSchedule, HasNothingToSendWithoutBuckets) {
  EXPECT_EQ(next_by_priority({.by_priority = true}, {}), std::nullopt);
}

}  // namespace
}  // namespace tally::exchange
