#include "base/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tally {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Recorder, TellsWhatRanAndWhoIsMissing) {
  Recorder recorder("world", 1, 4);
  const auto first =
      recorder.begin(0, {.operation = Operation::kBarrier}, Algorithm::kDirect, TimePoint(0));
  recorder.end(first, TimePoint(2'000'000), {});
  recorder.begin(1, {.operation = Operation::kAllreduce, .count = 10, .type = DataType::kFloat32},
                 Algorithm::kRing, TimePoint(3'000'000));
  const std::vector<Rank> missing = {2, 3};
  recorder.awaiting(missing);
  const std::string text = recorder.text(TimePoint(5'000'000));
  EXPECT_THAT(text, HasSubstr("world, rank 1 of 4: 2 operations so far"));
  EXPECT_THAT(text, HasSubstr("#0 barrier by direct: done in 2.000 ms"));
  EXPECT_THAT(text, HasSubstr("#1 allreduce sum of 10 float32 by ring: running for 2.000 ms"));
  EXPECT_THAT(text, HasSubstr("arrived: 0,1; not arrived: 2,3"));
}

TEST(Recorder, KeepsTheLast256AndShowsTheLast32) {
  Recorder recorder("world", 0, 1);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto index =
        recorder.begin(i, {.operation = Operation::kBarrier}, Algorithm::kTree, TimePoint(i));
    recorder.end(index, TimePoint(i), {});
  }
  const RecorderSnapshot kept = recorder.snapshot();
  // The snapshot leaves out the place that is written next.
  ASSERT_EQ(kept.operations.size(), 255U);
  EXPECT_EQ(kept.operations.front().sequence, 745U);
  const std::string text = recorder.text(TimePoint(2000));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 33);
  EXPECT_THAT(text, Not(HasSubstr("#967 ")));
  EXPECT_THAT(text, HasSubstr("#968 "));
  EXPECT_THAT(text, HasSubstr("#999 "));
}

TEST(Recorder, AFailureStaysVisible) {
  Recorder recorder("world", 0, 2);
  const auto index =
      recorder.begin(0, {.operation = Operation::kBarrier}, Algorithm::kTree, TimePoint(0));
  recorder.end(index, TimePoint(1'000'000), Error{.code = ErrorCode::kTimeout, .message = "late"});
  EXPECT_THAT(recorder.text(TimePoint(0)), HasSubstr("failed after 1.000 ms"));
}

TEST(Recorder, GivesItsOperationsAsValues) {
  Recorder recorder("world", 1, 3);
  const auto first =
      recorder.begin(7, {.operation = Operation::kBarrier}, Algorithm::kDirect, TimePoint(10));
  recorder.end(first, TimePoint(20), {});
  recorder.begin(99, {.operation = Operation::kSend, .count = 5, .root = 2}, Algorithm::kAuto,
                 TimePoint(30));
  recorder.awaiting(std::vector<Rank>{2});
  const RecorderSnapshot snapshot = recorder.snapshot();
  EXPECT_EQ(snapshot.begun, 2U);
  EXPECT_EQ(snapshot.next_collective, 8U);
  EXPECT_EQ(snapshot.awaited, std::vector<Rank>{2});
  ASSERT_EQ(snapshot.operations.size(), 2U);
  EXPECT_EQ(snapshot.operations[0].stage, OperationRecord::Stage::kDone);
  EXPECT_EQ(snapshot.operations[0].ended, TimePoint(20));
  EXPECT_EQ(snapshot.operations[1].stage, OperationRecord::Stage::kRunning);
  EXPECT_EQ(snapshot.operations[1].root, 2);
  EXPECT_EQ(snapshot.operations[1].sequence, 99U);
  EXPECT_EQ(describe(snapshot.operations[0]), "#7 barrier");
}

// A snapshot omits the entry that the next operation may overwrite: 255 of 256 entries remain.
TEST(Recorder, ValuesLeaveOutThePlaceThatIsWrittenNext) {
  Recorder recorder("world", 0, 1);
  for (std::uint32_t i = 0; i < 1000; ++i)
    recorder.begin(i, {.operation = Operation::kBarrier}, Algorithm::kTree, TimePoint(i));
  const RecorderSnapshot snapshot = recorder.snapshot();
  EXPECT_EQ(snapshot.operations.size(), Recorder::kCapacity - 1);
  EXPECT_EQ(snapshot.operations.front().sequence, 745U);
}

}  // namespace
}  // namespace tally
