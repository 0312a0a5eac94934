// `tally bench compress` as users run it, with models so small that the benchmark itself is what is tested.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process/two_hosts.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

// Of seven starts of libtorch, on a machine that has much else to do.
constexpr milliseconds kRunTime = seconds(250);

std::set<std::string> namespaces() {
  std::set<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", missing))
    if (const std::string name = entry.path().filename(); name.rfind("tally-bench-", 0) == 0)
      names.insert(name);
  return names;
}

class BenchCompress : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = TwoHosts::missing(); !reason.empty()) GTEST_SKIP() << reason;
    std::filesystem::create_directory(folder_.path() + "/tmp");
    before_ = namespaces();
  }

  Child start(const std::vector<std::string>& options) {
    std::vector<std::string> command{TALLY_PROGRAM, "bench",    "compress", "--steps",  "3",
                                     "--models",    "tiny-mlp", "--json",   json_file()};
    command.insert(command.end(), options.begin(), options.end());
    return Child({.command = command, .variables = {{"TMPDIR", folder_.path() + "/tmp"}}});
  }
  std::string json_file() const { return folder_.path() + "/compress.jsonl"; }
  void expect_nothing_left() const {
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/tmp"));
    EXPECT_EQ(namespaces(), before_);
  }

  std::set<std::string> before_;
  const Folder folder_;
};

TEST_F(BenchCompress, PlansAreMeasuredOverTheLink) {
  Child bench = start(
      {"--rounds", "2", "--links", "50mbit", "--plans", "codec=none;codec=int8:all;codec=auto"});
  EXPECT_TRUE(bench.exits(0, kRunTime)) << bench.transcript();
  std::set<std::string> found;
  std::map<std::string, double> sent;
  std::ifstream file(json_file());
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    EXPECT_EQ(line["runs"], 6) << text;
    EXPECT_GT(line["median_ms"].get<double>(), 0) << text;
    const std::string plan = line["plan"].get<std::string>();
    found.insert(line["link"].get<std::string>() + " " + plan);
    sent[plan] = line["sent_bytes_per_step"].get<double>();
  }
  EXPECT_EQ(found, (std::set<std::string>{"50mbit codec=none", "50mbit codec=int8:all",
                                          "50mbit codec=auto"}));
  // A model of 650 numbers: what is saved is less than what each message has besides.
  EXPECT_GT(sent["codec=none"], 650 * 4 / 2);
  EXPECT_LT(sent["codec=int8:all"], sent["codec=none"]);
  expect_nothing_left();
}

TEST_F(BenchCompress, AnInterruptRemovesTheHosts) {
  Child bench = start({"--links", "50mbit", "--codecs", "none", "--rounds", "10000"});
  ASSERT_TRUE(bench.complains("round 1 of", kRunTime)) << bench.transcript();
  EXPECT_EQ(namespaces().size(), before_.size() + 2);
  bench.signal(SIGINT);
  EXPECT_TRUE(bench.exits(130, kRunTime)) << bench.transcript();
  expect_nothing_left();
}

TEST_F(BenchCompress, RefusesWhatItDoesNotKnow) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--links", "fast"}, "'fast' is no speed"},
      {{"--codecs", "zip"}, "zip"},
      {{"--plans", "home=server"}, "home=group"},
      {{"--models", "resnet"}, "no model resnet"},
      {{"--epochs", "2"}, "--accuracy"}};
  for (const auto& [words, complaint] : cases) {
    Child bench = start(words);
    EXPECT_TRUE(bench.exits(2)) << bench.transcript();
    EXPECT_THAT(bench.errors(), HasSubstr(complaint));
  }
  expect_nothing_left();
}

TEST_F(BenchCompress, OthersThanRootAreTold) {
  Child bench({.command = {"/usr/bin/setpriv", "--reuid", "65534", "--clear-groups", TALLY_PROGRAM,
                           "bench", "compress"}});
  EXPECT_TRUE(bench.exits(2)) << bench.transcript();
  EXPECT_THAT(bench.errors(), HasSubstr("only root can make"));
}

}  // namespace
}  // namespace tally::process
