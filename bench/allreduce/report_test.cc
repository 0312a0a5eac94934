#include "bench/allreduce/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Measurement at(const std::string& contender, const std::string& transport, double us) {
  return {.contender = {contender, transport, ""},
          .bytes = 1 << 20,
          .sum = {.samples_us = {us}, .calls = 10}};
}

Comparison example() {
  return {
      .measurements = {at("tally", "shm", 100), at("gloo", "tcp", 1000), at("openmpi", "shm", 400),
                       at("mpich", "shm", 200), at("memory-floor", "memory", 50)},
      .rounds = 3};
}

TEST(Report, TableHasMediansAndRatios) {
  const std::string table = report_on(example(), 2, "ring").table;
  EXPECT_THAT(table, ContainsRegex("tally shm +100\n"));
  EXPECT_THAT(table, ContainsRegex("tally shm / gloo +0.10\n"));
  EXPECT_THAT(table, ContainsRegex("tally shm / best MPI +0.50\n"));
  EXPECT_THAT(table, ContainsRegex("floor / tally shm +50.0 %\n"));
}

TEST(Report, WhatWasNotMeasuredIsADashAndNoJsonLine) {
  Comparison comparison = example();
  comparison.measurements[1].sum.samples_us.clear();
  comparison.failures.texts.push_back("gloo tcp, 1 MiB: no answer in time from ranks 1");
  const Report report = report_on(comparison, 2, "ring");
  EXPECT_THAT(report.table, ContainsRegex("gloo +-\n"));
  EXPECT_THAT(report.table, ContainsRegex("tally shm / gloo +-\n"));
  EXPECT_THAT(report.table, HasSubstr("failed: gloo tcp"));
  EXPECT_TRUE(report.failed);
  for (const Json& line : report.lines) EXPECT_NE(line["contender"], "gloo");
}

TEST(Report, EachJsonLineStandsAlone) {
  const Report report = report_on(example(), 2, "ring");
  EXPECT_EQ(report.lines.size(), 5U);
  EXPECT_FALSE(report.failed);
  for (const Json& line : report.lines) {
    EXPECT_EQ(line["bytes"], 1 << 20);
    EXPECT_EQ(line["runs"], 10);
    EXPECT_EQ(line["checked"], line["contender"] != "memory-floor");
    EXPECT_EQ(line["algorithm"], line["contender"] == "tally" ? "ring" : "default");
  }
}

}  // namespace
}  // namespace tally::bench
