#include "bench/allreduce/report.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Measurement at(const std::string& contender, const std::string& transport, double us) {
  return {.contender = contender,
          .transport = transport,
          .bytes = 1 << 20,
          .samples_us = {us},
          .calls = 10};
}

Comparison example() {
  return {
      .measurements = {at("tally", "shm", 100), at("gloo", "tcp", 1000), at("openmpi", "shm", 400),
                       at("mpich", "shm", 200), at("memory-floor", "memory", 50)},
      .rounds = 3};
}

TEST(Report, TableHasMediansAndRatios) {
  const std::string table = table_text(example(), {.machine = {.cores = 2}, .ranks = 2});
  EXPECT_THAT(table, ContainsRegex("tally shm +100\n"));
  EXPECT_THAT(table, ContainsRegex("tally shm / gloo +0.10\n"));
  EXPECT_THAT(table, ContainsRegex("tally shm / best MPI +0.50\n"));
  EXPECT_THAT(table, ContainsRegex("floor / tally shm +50.0 %\n"));
}

TEST(Report, WhatWasNotMeasuredIsADashAndNoJsonLine) {
  Comparison comparison = example();
  comparison.measurements[1].samples_us.clear();
  comparison.failures.push_back("gloo tcp, 1 MiB: no answer in time from ranks 1");
  const std::string table = table_text(comparison, {});
  EXPECT_THAT(table, ContainsRegex("gloo +-\n"));
  EXPECT_THAT(table, ContainsRegex("tally shm / gloo +-\n"));
  EXPECT_THAT(table, HasSubstr("failed: gloo tcp"));
  std::ostringstream json;
  write_json(json, comparison, {});
  EXPECT_THAT(json.str(), Not(HasSubstr("gloo")));
}

TEST(Report, EachJsonLineStandsAlone) {
  std::ostringstream json;
  write_json(json, example(), {.machine = {.commit = "c", .host = "h", .cores = 4}, .ranks = 2});
  std::istringstream lines(json.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto value = nlohmann::json::parse(line);
    EXPECT_EQ(value["bench"], "allreduce");
    EXPECT_EQ(value["bytes"], 1 << 20);
    EXPECT_EQ(value["runs"], 10);
    EXPECT_EQ(value["commit"], "c");
    EXPECT_EQ(value["checked"], value["contender"] != "memory-floor");
  }
  EXPECT_EQ(count, 5);
}

}  // namespace
}  // namespace tally::bench
