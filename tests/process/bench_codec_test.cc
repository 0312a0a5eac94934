// `tally bench codec` as users run it, on few values: a test of the benchmark itself.
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process/crew.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

class BenchCodec : public testing::Test {
 protected:
  Child start(const std::vector<std::string>& options) {
    std::vector<std::string> command{TALLY_PROGRAM, "bench", "codec",  "--elements", "70000",
                                     "--repeat",    "2",     "--json", json_file()};
    command.insert(command.end(), options.begin(), options.end());
    return Child({.command = command});
  }

  std::string json_file() const { return folder_.path() + "/codec.jsonl"; }

  const Folder folder_;
};

TEST_F(BenchCodec, EveryCodecIsCheckedAndMeasured) {
  Child bench = start({});
  ASSERT_TRUE(bench.exits(0)) << bench.transcript();
  EXPECT_THAT(bench.output(), HasSubstr("fp16: encode, of a memory copy"));
  std::set<std::string> codecs;
  std::set<std::string> stages;
  std::ifstream file(json_file());
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    EXPECT_EQ(line["bench"], "codec");
    EXPECT_GT(line["encode_gb_per_s"].get<double>(), 0) << text;
    if (line.contains("stage")) {
      stages.insert(line["stage"].get<std::string>());
      continue;
    }
    EXPECT_GT(line["bytes_per_value"].get<double>(), 0) << text;
    EXPECT_GT(line["copy_gb_per_s"].get<double>(), 0) << text;
    codecs.insert(line["codec"].get<std::string>() + " " + line["data"].get<std::string>());
  }
  EXPECT_EQ(stages, (std::set<std::string>{"rans", "huffman", "zstd -1"}));
  for (const char* const codec :
       {"fp16",       "bf16",    "int8",    "fp8",       "fp8:e5m2", "qsgd:2",      "qsgd",
        "qsgd:8",     "ternary", "natural", "onebit",    "sign",     "onebit-adam", "topk",
        "topk:exact", "randk",   "dgc",     "threshold", "powersgd", "qsgd+rans",   "zstd -1"})
    for (const char* const data : {" gaussian", " laplace"})
      EXPECT_TRUE(codecs.contains(std::string(codec) + data)) << codec << data;
}

TEST_F(BenchCodec, RefusesUnknownValues) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--codecs", "zip"}, "zip"},
      {{"--codecs", "auto"}, "auto chooses from others"},
      {{"--gradients", folder_.path() + "/none"}, "none"},
      {{"--elements", "0"}, "--elements"}};
  for (const auto& [words, complaint] : cases) {
    Child bench = start(words);
    EXPECT_TRUE(bench.exits(2)) << bench.transcript();
    EXPECT_TRUE(bench.complains(complaint)) << bench.transcript();
  }
}

TEST_F(BenchCodec, AFileThatIsNoRecordIsAnError) {
  const std::string file = folder_.path() + "/noise";
  std::ofstream(file) << "noise, and no tensors";
  Child bench = start({"--codecs", "bf16", "--gradients", file});
  EXPECT_TRUE(bench.exits(1)) << bench.transcript();
  EXPECT_TRUE(bench.complains(file)) << bench.transcript();
}

}  // namespace
}  // namespace tally::process
