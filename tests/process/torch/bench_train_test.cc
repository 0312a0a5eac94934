// `tally bench train` as users run it, with tiny models: a test of the benchmark itself.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process/crew.h"

namespace tally::process {
namespace {

constexpr milliseconds kRunTime = 3 * kPatience;

class BenchTrain : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/lib/python3/dist-packages/torch"))
      GTEST_SKIP() << "python3-torch is not installed";
  }

  Child start(std::vector<std::string> options) {
    std::filesystem::create_directory(folder_.path() + "/tmp");
    std::vector<std::string> command{TALLY_BENCH_PROGRAM, "bench", "--rounds", "2",
                                     "--steps",           "3",     "--json",   json_file()};
    command.insert(command.end(), options.begin(), options.end());
    return Child({.command = command, .variables = {{"TMPDIR", folder_.path() + "/tmp"}}});
  }

  std::string json_file() const { return folder_.path() + "/train.jsonl"; }

  // "MODEL CONTENDER" of all lines; expects each line to be checked and complete.
  std::set<std::string> checked_lines(const std::string& precision = "float32",
                                      double tolerance = 1e-4) const {
    std::set<std::string> found;
    std::ifstream file(json_file());
    for (std::string text; std::getline(file, text);) {
      const nlohmann::json line = nlohmann::json::parse(text);
      EXPECT_EQ(line["bench"], "train");
      EXPECT_EQ(line["checked"], true) << text;
      EXPECT_LE(line["loss_difference"].get<double>(), tolerance);
      EXPECT_EQ(line["device"], "cpu");
      EXPECT_EQ(line["precision"], precision);
      // Only tally's loop can also make its passes alone, and only one rank has no other ranks to
      // wait for.
      EXPECT_EQ(line.contains("other_work"), line["contender"] == "tally" && line["ranks"] == 1)
          << text;
      EXPECT_EQ(line["runs"], 6) << text;
      EXPECT_GT(line["units_per_s"].get<double>(), 0);
      found.insert(line["model"].get<std::string>() + " " + line["contender"].get<std::string>());
    }
    return found;
  }

  static std::set<std::string> each_of(const std::vector<std::string>& models,
                                       const std::vector<std::string>& contenders) {
    std::set<std::string> lines;
    for (const std::string& model : models)
      for (const std::string& contender : contenders) lines.insert(model + " " + contender);
    return lines;
  }

  bool nothing_left() const { return std::filesystem::is_empty(folder_.path() + "/tmp"); }

  const Folder folder_;
};

TEST_F(BenchTrain, TwoRanksAgreeWithDdpAndAreTimed) {
  Child bench = start(
      {"--model", "tiny-mlp,tiny-resnet,tiny-adamw", "--ranks", "2", "--against", "torch,ddp"});
  EXPECT_TRUE(bench.exits(0, kRunTime)) << bench.transcript();
  EXPECT_EQ(checked_lines(),
            each_of({"tiny-mlp", "tiny-resnet", "tiny-adamw"}, {"tally", "single", "torch", "ddp"}))
      << bench.transcript();
  EXPECT_TRUE(nothing_left());
}

TEST_F(BenchTrain, OneRankAgreesWithTorchAndIsTimed) {
  Child bench = start({"--model", "tiny-cnn,tiny-gpt", "--ranks", "1", "--against", "torch"});
  EXPECT_TRUE(bench.exits(0, kRunTime)) << bench.transcript();
  EXPECT_EQ(checked_lines(), each_of({"tiny-cnn", "tiny-gpt"}, {"tally", "single", "torch"}))
      << bench.transcript();
}

TEST_F(BenchTrain, AllContendersComputeInBfloat16) {
  Child bench = start({"--model", "tiny-cnn,tiny-adamw", "--ranks", "1", "--against", "torch,ddp",
                       "--precision", "bfloat16", "--channels-last"});
  EXPECT_TRUE(bench.exits(0, kRunTime)) << bench.transcript();
  EXPECT_EQ(checked_lines("bfloat16", 2e-2),
            each_of({"tiny-cnn", "tiny-adamw"}, {"tally", "single", "torch", "ddp"}))
      << bench.transcript();
}

// The peer trains with another momentum: the check notices it, and only contenders that agree are
// timed.
TEST_F(BenchTrain, AContenderThatTrainsDifferentlyIsNotTimed) {
  const std::string python = script(
      folder_, "python",
      "case \"$1\" in *.py) sed -i 's/momentum=facts.\"momentum\"./momentum=0.5/' \"$1\";; esac\n"
      "exec /usr/bin/python3 \"$@\"");
  Child bench = start({"--model", "tiny-mlp", "--python", python});
  EXPECT_TRUE(bench.exits(1, kRunTime)) << bench.transcript();
  EXPECT_TRUE(bench.complains("failed: tiny-mlp, ddp: at step ")) << bench.transcript();
  EXPECT_TRUE(bench.complains("failed: tiny-mlp, single: at step ")) << bench.transcript();
  EXPECT_EQ(checked_lines(), std::set<std::string>{"tiny-mlp tally"});
  EXPECT_TRUE(nothing_left());
}

TEST_F(BenchTrain, WithoutPythonTheRestIsMeasured) {
  Child bench = start({"--model", "tiny-mlp", "--python", folder_.path() + "/none"});
  EXPECT_TRUE(bench.exits(1, kRunTime)) << bench.transcript();
  EXPECT_TRUE(bench.complains("/none has no torch: package python3-torch")) << bench.transcript();
  EXPECT_EQ(checked_lines(), (std::set<std::string>{"tiny-mlp tally", "tiny-mlp single"}));
}

TEST_F(BenchTrain, RefusesUnknownValues) {
  const std::map<std::string, std::string> cases = {{"--model", "no model resnet"},
                                                    {"--bucket", "resnet"}};
  for (const auto& [option, complaint] : cases) {
    Child bench = start({option, "resnet"});
    EXPECT_TRUE(bench.exits(2)) << bench.transcript();
    EXPECT_TRUE(bench.complains(complaint)) << bench.transcript();
  }
  EXPECT_TRUE(nothing_left());
}

TEST_F(BenchTrain, WhatOnlyGpusHaveIsRefusedOnTheCpu) {
  for (const char* const option : {"--graphs", "--tf32"}) {
    Child bench = start({option});
    EXPECT_TRUE(bench.exits(2)) << bench.transcript();
    EXPECT_TRUE(bench.complains(std::string(option) + ": needs --device cuda"))
        << bench.transcript();
  }
  if (std::filesystem::exists("/dev/nvidiactl")) return;
  Child bench = start({"--device", "cuda"});
  EXPECT_TRUE(bench.exits(2)) << bench.transcript();
  EXPECT_TRUE(bench.complains("--device cuda: ")) << bench.transcript();
}

}  // namespace
}  // namespace tally::process
