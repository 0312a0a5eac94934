#include "bench/train/report.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::bench::train {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Measurement at(const std::string& contender, int ranks, std::vector<double> ms) {
  return {.model = "mlp",
          .contender = contender,
          .ranks = ranks,
          .unit = "samples",
          .units_per_step = 64.0 * ranks,
          .samples_ms = std::move(ms),
          .checked = true,
          .difference = 2e-6,
          .version = "1.13.0"};
}

Comparison example() {
  return {.measurements = {at("tally", 2, {40, 50, 60}), at("single", 1, {40, 40, 40}),
                           at("ddp", 2, {100, 90, 110})},
          .rounds = 3};
}

TEST(TrainReport, SpeedIsThatOfTheMedianStep) {
  const Comparison comparison = example();
  EXPECT_DOUBLE_EQ(*units_per_second(comparison.measurements[0]), 128 / 0.050);
  EXPECT_FALSE(units_per_second(at("ddp", 2, {})));
}

TEST(TrainReport, StandsBesideDdpAndAsManySingleWorkers) {
  const Comparison comparison = example();
  const Standing tally = standing(comparison.measurements[0], comparison);
  EXPECT_DOUBLE_EQ(*tally.over_ddp, 2);
  EXPECT_DOUBLE_EQ(*tally.efficiency, 0.8);
  const Standing single = standing(comparison.measurements[1], comparison);
  EXPECT_DOUBLE_EQ(*single.efficiency, 1);
  EXPECT_FALSE(single.over_ddp);
  const Comparison alone{.measurements = {at("tally", 2, {50})}};
  EXPECT_FALSE(standing(alone.measurements[0], alone).over_ddp);
  EXPECT_FALSE(standing(alone.measurements[0], alone).efficiency);
}

TEST(TrainReport, TableHasMediansAndStandings) {
  const std::string table = table_text(example(), {.machine = {.cores = 2}, .threads = 1});
  EXPECT_THAT(table,
              ContainsRegex("mlp +tally +2 +50.00 +10.00 +2560.0 samples +2.00 +80 % +2.0e-06\n"));
  EXPECT_THAT(table, ContainsRegex("mlp +single +1 +40.00 +0.00 +1600.0 samples"));
}

TEST(TrainReport, WhoWasNotMeasuredHasNoLine) {
  Comparison comparison = example();
  comparison.measurements[2].samples_ms.clear();
  comparison.failures.push_back("mlp, ddp: no answer in time from ranks 1");
  EXPECT_THAT(table_text(comparison, {}), HasSubstr("failed: mlp, ddp: no answer"));
  std::ostringstream json;
  write_json(json, comparison, {});
  EXPECT_THAT(json.str(), Not(HasSubstr("ddp")));
}

TEST(TrainReport, EachJsonLineStandsAlone) {
  std::ostringstream json;
  write_json(
      json, example(),
      {.machine = {.commit = "c", .host = "h", .cores = 2}, .threads = 1, .bucket_bytes = 4096});
  std::istringstream lines(json.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto value = nlohmann::json::parse(line);
    EXPECT_EQ(value["bench"], "train");
    EXPECT_EQ(value["model"], "mlp");
    EXPECT_EQ(value["checked"], true);
    EXPECT_EQ(value["runs"], 3);
    EXPECT_EQ(value["torch"], "1.13.0");
    EXPECT_EQ(value["commit"], "c");
    EXPECT_EQ(value.contains("bucket_bytes"), value["contender"] == "tally");
    if (value["contender"] == "tally") {
      EXPECT_EQ(value["ranks"], 2);
      EXPECT_EQ(value["median_ms"], 50.0);
      EXPECT_EQ(value["units_per_s"], 2560.0);
      EXPECT_EQ(value["over_ddp"], 2.0);
    }
  }
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace tally::bench::train
