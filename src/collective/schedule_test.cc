#include "collective/schedule.h"

#include <gtest/gtest.h>

#include "collective/schedule_interpreter_test_support.h"

namespace tally::collective {
namespace {

Block output(std::size_t offset_bytes, std::size_t bytes) {
  return {.buffer = Buffer::kOutput, .offset_bytes = offset_bytes, .bytes = bytes};
}

TEST(Schedule, CountsWhatItSends) {
  Schedule schedule;
  schedule.begin_step();
  schedule.copy(Block{.buffer = Buffer::kInput, .bytes = 8}, output(0, 8));
  schedule.send(1, 0, output(0, 8));
  schedule.receive(1, 0, output(8, 8));
  schedule.begin_step();
  schedule.send(1, 1, output(0, 0));
  EXPECT_EQ(schedule.step_count(), 2U);
  EXPECT_EQ(schedule.step(0).size(), 3U);
  EXPECT_EQ(schedule.step(1).size(), 1U);
  EXPECT_EQ(schedule.messages_sent(), 2U);
  EXPECT_EQ(schedule.bytes_sent(), 8U);
}

TEST(Schedule, LeavesOutEmptyLocalActions) {
  Schedule schedule;
  schedule.begin_step();
  schedule.copy(Block{.buffer = Buffer::kInput}, output(0, 0));
  schedule.divide(output(4, 0));
  EXPECT_TRUE(schedule.step(0).empty());
}

TEST(PartOf, CoversTheTotalWithTheLargerPartsFirst) {
  for (const std::size_t total : {0, 1, 2, 7, 8, 9, 1000}) {
    for (const int parts : {1, 2, 3, 7, 8}) {
      std::size_t end = 0;
      std::size_t previous = total;
      for (int i = 0; i < parts; ++i) {
        const Part part = part_of(total, parts, i);
        EXPECT_EQ(part.begin, end);
        EXPECT_LE(part.size(), previous);
        EXPECT_GE(part.size(), total / static_cast<std::size_t>(parts));
        EXPECT_LE(part.size(), total / static_cast<std::size_t>(parts) + 1);
        previous = part.size();
        end = part.end;
      }
      EXPECT_EQ(end, total);
    }
  }
}

TEST(Parts, LieOneAfterTheOther) {
  const std::size_t counts[] = {3, 0, 5};
  const Parts parts = Parts::of(counts, 4);
  EXPECT_EQ(parts.size(), 3);
  EXPECT_EQ(parts.total_bytes(), 32U);
  EXPECT_EQ(parts.largest_bytes(), 20U);
  EXPECT_EQ(parts.block(Buffer::kOutput, 1), output(12, 0));
  EXPECT_EQ(parts.blocks(Buffer::kOutput, 1, 3), output(12, 20));
  EXPECT_EQ(parts.alone(Buffer::kOutput, 2), output(0, 20));
  EXPECT_EQ(Parts::equal({.count = 2, .element_bytes = 8}, 3).block(Buffer::kOutput, 2),
            output(32, 16));
}

// The tests of the algorithms rely on the interpreter, so it must detect each kind of fault.
ErrorCode fault_of(const std::vector<Schedule>& schedules) {
  std::vector<RankMemory<std::uint8_t>> memory(schedules.size());
  for (auto& mine : memory) {
    mine.input.resize(8);
    mine.output.resize(8);
  }
  Interpreter<std::uint8_t> interpreter(
      schedules, memory, [](std::uint8_t a, std::uint8_t) { return a; }, false);
  const Result<void> outcome = interpreter.run();
  return outcome.has_value() ? ErrorCode::kSystem : outcome.error().code;
}

TEST(Interpreter, FindsFaults) {
  Schedule idle;
  Schedule sender;
  sender.begin_step();
  sender.send(1, 0, output(0, 4));
  Schedule twice = sender;
  twice.send(1, 0, output(4, 4));
  Schedule receiver;
  receiver.begin_step();
  receiver.receive(0, 0, output(0, 4));
  Schedule short_receiver;
  short_receiver.begin_step();
  short_receiver.receive(0, 0, output(0, 3));
  Schedule outside;
  outside.begin_step();
  outside.receive(0, 0, output(6, 4));
  Schedule overlapping = receiver;
  overlapping.send(0, 0, output(3, 2));

  EXPECT_EQ(fault_of({sender, receiver}), ErrorCode::kSystem);  // none
  EXPECT_EQ(fault_of({sender, idle}), ErrorCode::kMismatch);
  EXPECT_EQ(fault_of({idle, receiver}), ErrorCode::kTimeout);
  EXPECT_EQ(fault_of({twice, receiver}), ErrorCode::kMismatch);
  EXPECT_EQ(fault_of({sender, short_receiver}), ErrorCode::kMismatch);
  EXPECT_EQ(fault_of({sender, outside}), ErrorCode::kInvalid);
  EXPECT_EQ(fault_of({sender, overlapping}), ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tally::collective
