#include "group/report.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

Report full_report() {
  Report report{.rank = 3,
                .generation = 2,
                .pid = 4711,
                .host = "b",
                .at = TimePoint(1000),
                .clock_offset = Duration(-5),
                .step = 7,
                .samples = 70,
                .memory_bytes = 1 << 20,
                .operations = 18,
                .joined = TimePoint(10)};
  report.current = ReportedOperation{
      .communicator = "world/1",
      .channel = 4,
      .record = {.sequence = 17, .operation = Operation::kAllreduce, .count = 1000},
      .members = {1, 3},
      .waits_for = {1}};
  report.last = ReportedOperation{.communicator = "world",
                                  .channel = 0,
                                  .record = {.sequence = 16,
                                             .stage = OperationRecord::Stage::kDone,
                                             .started = TimePoint(5),
                                             .ended = TimePoint(6)},
                                  .members = {},
                                  .waits_for = {}};
  report.positions = {{"world", 0, 17}, {"world/1", 4, 18}};
  report.figures = {{"loss", 0.25}, {"epoch", 1.5}};
  report.joining = TimePoint(77);
  report.failure = Error{.code = ErrorCode::kTimeout, .peer = 1, .message = "late"};
  return report;
}

std::vector<std::byte> bytes_of(const Report& report) {
  wire::Writer writer;
  wire::write_fields(writer, report);
  return writer.take();
}

TEST(Report, ComesBackAsItWasWritten) {
  const std::vector<std::byte> bytes = bytes_of(full_report());
  wire::Reader reader(bytes);
  const auto report = wire::read_fields<Report>(reader);
  ASSERT_TRUE(report.has_value()) << to_string(report.error());
  EXPECT_TRUE(reader.end().has_value());
  EXPECT_EQ(report->current, full_report().current);
  EXPECT_EQ(report->last, full_report().last);
  EXPECT_EQ(report->positions, full_report().positions);
  EXPECT_EQ(report->figures, full_report().figures);
  EXPECT_EQ(report->joining, TimePoint(77));
  EXPECT_EQ(report->failure->message, "late");
  EXPECT_EQ(report->clock_offset, Duration(-5));
  EXPECT_EQ(bytes_of(*report), bytes);
}

TEST(Report, CutAnywhereItIsCorrupt) {
  const std::vector<std::byte> bytes = bytes_of(full_report());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    wire::Reader reader(std::span<const std::byte>(bytes).first(length));
    const auto report = wire::read_fields<Report>(reader);
    ASSERT_FALSE(report.has_value()) << length;
    EXPECT_EQ(report.error().code, ErrorCode::kCorrupt);
  }
}

TEST(Report, WithARankThatCannotBeIsCorrupt) {
  for (const Rank rank : {-1, 4096, 1 << 30}) {
    Report report = full_report();
    report.rank = rank;
    const std::vector<std::byte> bytes = bytes_of(report);
    wire::Reader reader(bytes);
    EXPECT_FALSE(wire::read_fields<Report>(reader).has_value()) << rank;
  }
}

TEST(Report, TellsSinceWhen) {
  Report report = full_report();
  EXPECT_EQ(report.since(), TimePoint(77));
  report.joining.reset();
  report.current->record.started = TimePoint(900);
  EXPECT_EQ(report.since(), TimePoint(900));
  report.current.reset();
  EXPECT_EQ(report.since(), TimePoint(6));
  report.last.reset();
  EXPECT_EQ(report.since(), TimePoint(10));
}

TEST(Report, TracesComeBackAsTheyWereWritten) {
  Trace trace{.rank = 2, .clock_offset = Duration(77), .communicators = {}};
  trace.communicators.push_back({.name = "world",
                                 .rank = 2,
                                 .ranks = 4,
                                 .begun = 1,
                                 .next_collective = 1,
                                 .operations = {{.sequence = 0, .started = TimePoint(3)}},
                                 .awaited = {1}});
  wire::Writer writer;
  wire::write_fields(writer, trace);
  wire::Reader reader(writer.view());
  const auto read = wire::read_fields<Trace>(reader);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->rank, 2);
  EXPECT_EQ(read->clock_offset, Duration(77));
  EXPECT_EQ(read->communicators, trace.communicators);
}

TEST(Report, TimesAreForPeople) {
  using namespace std::chrono_literals;
  EXPECT_EQ(seconds_text(350us), "0 ms");
  EXPECT_EQ(seconds_text(42ms), "42 ms");
  EXPECT_EQ(seconds_text(10200ms), "10.2 s");
  EXPECT_EQ(seconds_text(125s), "2 min 5 s");
  EXPECT_EQ(ranks_text({2}), "rank 2");
  EXPECT_EQ(ranks_text({2, 3}), "ranks 2, 3");
}

}  // namespace
}  // namespace tally::group
