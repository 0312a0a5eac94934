#include "bench/train/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench::train {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Measurement at(const std::string& contender, int ranks, std::vector<double> ms) {
  return {.model = "mlp",
          .contender = contender,
          .ranks = ranks,
          .unit = "samples",
          .units_per_step = 64.0 * ranks,
          .samples_ms = std::move(ms),
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

TEST(TrainReport, TorchHasOneRankWhateverTheOthersHave) {
  Comparison comparison = example();
  comparison.measurements.push_back(at("torch", 1, {80}));
  EXPECT_DOUBLE_EQ(*standing(comparison.measurements[0], comparison).over_torch, 3.2);
  EXPECT_DOUBLE_EQ(*standing(comparison.measurements[1], comparison).over_torch, 2);
  EXPECT_DOUBLE_EQ(*standing(comparison.measurements[3], comparison).over_torch, 1);
  EXPECT_FALSE(standing(comparison.measurements[3], comparison).over_ddp);
}

TEST(TrainReport, OtherWorkIsWhatTheStepHasBesideThePasses) {
  Comparison comparison{.measurements = {at("tally", 1, {50, 40, 60})}};
  EXPECT_FALSE(standing(comparison.measurements[0], comparison).other_work);
  comparison.measurements[0].passes_ms = {45, 47, 46};
  EXPECT_NEAR(*standing(comparison.measurements[0], comparison).other_work, 0.08, 1e-12);
  const Report report = report_on(comparison, {.threads = 1});
  EXPECT_THAT(report.table, HasSubstr(" 8 % "));
  EXPECT_NEAR(report.lines[0]["other_work"].get<double>(), 0.08, 1e-12);
}

TEST(TrainReport, TableHasMediansAndStandings) {
  Comparison comparison = example();
  comparison.measurements.push_back(at("torch", 1, {80}));
  const std::string table = report_on(comparison, {.threads = 1}).table;
  EXPECT_THAT(table, ContainsRegex("mlp +tally +2 +50.00 +10.00 +2560.0 samples +3.20 +2.00 +80 % "
                                   "+2.0e-06\n"));
  EXPECT_THAT(table, ContainsRegex("mlp +single +1 +40.00 +0.00 +1600.0 samples"));
}

TEST(TrainReport, SaysHowContendersCompute) {
  const auto text = [](const Computation& computation) {
    return report_on(example(), {.computation = computation}).table;
  };
  EXPECT_THAT(text({}), HasSubstr("training on cpu in float32; threads"));
  EXPECT_THAT(text({.device = "cuda", .precision = "bfloat16"}),
              HasSubstr("training on cuda in bfloat16, TF32 in cuDNN only; "));
  EXPECT_THAT(text({.device = "cuda", .tf32 = true, .channels_last = true}),
              HasSubstr("TF32 in cuDNN and matrix products, channels last; "));
  const Report report = report_on(example(), {.computation = {.device = "cuda", .tf32 = true}});
  EXPECT_EQ(report.lines[0]["device"], "cuda");
  EXPECT_EQ(report.lines[0]["precision"], "float32");
  EXPECT_EQ(report.lines[0]["tf32"], true);
}

TEST(TrainReport, WhoWasNotMeasuredHasNoLine) {
  Comparison comparison = example();
  comparison.measurements[2].samples_ms.clear();
  comparison.failures.texts.push_back("mlp, ddp: no answer in time from ranks 1");
  const Report report = report_on(comparison, {});
  EXPECT_THAT(report.table, HasSubstr("failed: mlp, ddp: no answer"));
  EXPECT_TRUE(report.failed);
  for (const Json& line : report.lines) EXPECT_NE(line["contender"], "ddp");
}

TEST(TrainReport, EachJsonLineStandsAlone) {
  const Report report = report_on(example(), {.threads = 1, .bucket_bytes = 4096});
  EXPECT_EQ(report.lines.size(), 3U);
  EXPECT_FALSE(report.failed);
  for (const Json& value : report.lines) {
    EXPECT_EQ(value["model"], "mlp");
    EXPECT_EQ(value["checked"], true);
    EXPECT_EQ(value["runs"], 3);
    EXPECT_EQ(value["torch"], "1.13.0");
    EXPECT_EQ(value.contains("bucket_bytes"), value["contender"] == "tally");
    if (value["contender"] == "tally") {
      EXPECT_EQ(value["ranks"], 2);
      EXPECT_EQ(value["median_ms"], 50.0);
      EXPECT_EQ(value["units_per_s"], 2560.0);
      EXPECT_EQ(value["over_ddp"], 2.0);
    }
  }
}

}  // namespace
}  // namespace tally::bench::train
