#include "apps/tally/merged_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Stage = OperationRecord::Stage;

OperationRecord record(std::uint32_t sequence, TimePoint started, TimePoint ended,
                       Stage stage = Stage::kDone) {
  return {.sequence = sequence,
          .operation = Operation::kBarrier,
          .algorithm = Algorithm::kTree,
          .stage = stage,
          .started = started,
          .ended = ended};
}

// The clock of rank 1 is 50 s behind.
std::vector<group::Trace> traces() {
  group::Trace zero{.rank = 0, .clock_offset = {}, .communicators = {}};
  zero.communicators.push_back(
      {.name = "world",
       .operations = {record(0, 100s, 101s), record(1, 103s, {}, Stage::kRunning)},
       .awaited = {}});
  zero.communicators.push_back(
      {.name = "world/0", .operations = {record(0, 102s, 104s, Stage::kFailed)}, .awaited = {}});
  group::Trace one{.rank = 1, .clock_offset = 50s, .communicators = {}};
  one.communicators.push_back(
      {.name = "world", .operations = {record(0, 50500ms, 51s)}, .awaited = {}});
  return {zero, one};
}

TEST(MergedTrace, PutsAllRanksOnOneAxis) {
  const auto merged = merge(traces());
  std::vector<std::pair<Rank, TimePoint>> order;
  for (const auto& operation : merged) order.emplace_back(operation.rank, operation.record.started);
  EXPECT_THAT(order,
              testing::ElementsAre(std::pair(0, TimePoint(100s)), std::pair(1, TimePoint(100500ms)),
                                   std::pair(0, TimePoint(102s)), std::pair(0, TimePoint(103s))));
}

TEST(MergedTrace, ListsTheLastOfEachRank) {
  const std::string all = trace_listing(merge(traces()), 10);
  EXPECT_THAT(all, HasSubstr("0.500000  1     world        #0 barrier"));
  EXPECT_THAT(all, HasSubstr("2000.000 ms, failed"));
  EXPECT_THAT(all, HasSubstr("running"));
  const std::string last = trace_listing(merge(traces()), 1);
  EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 3) << last;
}

TEST(MergedTrace, ChromeReadsOneCompleteEventPerOperation) {
  const auto json = nlohmann::json::parse(chrome_trace(merge(traces())).dump());
  int complete = 0;
  std::set<std::string> names;
  for (const auto& event : json.at("traceEvents")) {
    ASSERT_TRUE(event.at("pid").is_number_integer());
    ASSERT_TRUE(event.at("tid").is_number_integer());
    if (event.at("ph") == "M") {
      names.insert(event.at("args").at("name"));
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    ++complete;
  }
  EXPECT_EQ(complete, 4);
  EXPECT_THAT(names, testing::ElementsAre("rank 0", "rank 1", "world", "world/0"));
  // An operation that is still running extends to the latest timestamp of the trace.
  const auto& running = json.at("traceEvents").back();
  EXPECT_EQ(running.at("args").at("outcome"), "running");
  EXPECT_DOUBLE_EQ(running.at("dur").get<double>(), 1e6);
}

TEST(MergedTrace, PhasesOfTheTrainingAreAmongTheOperations) {
  std::vector<group::Trace> all = traces();
  all[1].phases = {{"backward", 51s, 53s}, {"bucket 0", 52s, 54s}};
  const auto merged = merge(all);
  const std::string listing = trace_listing(merged, 10);
  EXPECT_THAT(listing, HasSubstr("1.000000  1     training     backward "));
  EXPECT_THAT(listing, HasSubstr("2000.000 ms"));
  const auto json = nlohmann::json::parse(chrome_trace(merged).dump());
  std::map<std::string, int> thread_of;
  for (const auto& event : json.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("pid") == 1) thread_of[event["name"]] = event["tid"];
  EXPECT_EQ(thread_of.size(), 3U);
  // They overlap.
  EXPECT_NE(thread_of["backward"], thread_of["bucket 0"]);
}

TEST(MergedTrace, NothingIsNotATrouble) {
  EXPECT_TRUE(chrome_trace(merge({})).at("traceEvents").empty());
  EXPECT_THAT(trace_listing({}, 5), HasSubstr("seconds"));
}

}  // namespace
}  // namespace tally::app
