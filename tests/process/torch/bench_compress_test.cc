// `tally bench compress` as users run it, with tiny models: a test of the benchmark itself.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process/two_hosts.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

// The time for several starts of libtorch.
constexpr milliseconds kRunTime = 3 * kPatience;

bool exists(const std::string& name) { return std::filesystem::exists("/run/netns/" + name); }

// Names of network namespaces that this process has made.
std::set<std::string> made_by(pid_t pid) {
  std::set<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", missing))
    if (const std::string name = entry.path().filename();
        name.rfind("tally-bench-", 0) == 0 &&
        name.find(fmt::format("-{}-", pid)) != std::string::npos)
      names.insert(name);
  return names;
}

// The time when this process began, in ticks since boot: the 22nd word of the line.
std::uint64_t began_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string word;
  for (int i = 0; i < 22; ++i) file >> word;
  return std::stoull(word);
}

// Makes network namespaces with these names, and removes them with the object.
class Namespaces final {
 public:
  explicit Namespaces(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_)
      Child({.command = {"/usr/sbin/ip", "netns", "add", name}}).exits(0);
  }
  ~Namespaces() {
    for (const std::string& name : names_)
      Child({.command = {"/usr/sbin/ip", "netns", "del", name}}).exits(0);
  }
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

 private:
  const std::vector<std::string> names_;
};

class BenchCompress : public OnTwoHosts {
 protected:
  void SetUp() override {
    OnTwoHosts::SetUp();
    std::filesystem::create_directory(folder_.file("tmp"));
  }

  Child start(const std::vector<std::string>& options) {
    std::vector<std::string> command{TALLY_PROGRAM, "bench",    "compress", "--steps",  "3",
                                     "--models",    "tiny-mlp", "--json",   json_file()};
    command.insert(command.end(), options.begin(), options.end());
    return Child({.command = command, .variables = {{"TMPDIR", folder_.path() + "/tmp"}}});
  }
  std::string json_file() const { return folder_.path() + "/compress.jsonl"; }
  void expect_nothing_left(const Child& bench) const {
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/tmp"));
    EXPECT_EQ(made_by(bench.pid()), std::set<std::string>());
  }

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
  // The model has 650 numbers: the headers of messages are larger than the savings.
  EXPECT_GT(sent["codec=none"], 650 * 4 / 2);
  EXPECT_LT(sent["codec=int8:all"], sent["codec=none"]);
  expect_nothing_left(bench);
}

TEST_F(BenchCompress, AnInterruptRemovesTheHosts) {
  Child bench = start({"--links", "50mbit", "--codecs", "none", "--rounds", "10000"});
  ASSERT_TRUE(bench.complains("round 1 of", kRunTime)) << bench.transcript();
  EXPECT_EQ(made_by(bench.pid()).size(), 2U);
  bench.signal(SIGINT);
  EXPECT_TRUE(bench.exits(130, kRunTime)) << bench.transcript();
  expect_nothing_left(bench);
}

// Namespaces as other runs make them: by a process that has ended, by this one, and by an unknown
// one.
TEST_F(BenchCompress, AKilledRunAndEarlierRunsLeaveNoHosts) {
  struct stat own {};
  ASSERT_EQ(::stat("/proc/self/ns/pid", &own), 0);
  pid_t dead = 0;
  {
    Child ended({.command = {"/bin/true"}});
    ASSERT_TRUE(ended.exits(0));
    dead = ended.pid();
  }
  const std::string left = fmt::format("tally-bench-{}-{}-1-b", own.st_ino, dead);
  const std::string living =
      fmt::format("tally-bench-{}-{}-{}-a", own.st_ino, ::getpid(), began_ticks());
  const std::string elsewhere = fmt::format("tally-bench-{}-{}-1-a", own.st_ino + 1, dead);
  const std::string unknown = fmt::format("tally-bench-mine-{}", ::getpid());
  const Namespaces made({left, living, elsewhere, unknown});
  for (const std::string& name : {left, living, elsewhere, unknown}) ASSERT_TRUE(exists(name));

  Child bench = start({"--links", "50mbit", "--codecs", "none", "--rounds", "10000"});
  ASSERT_TRUE(bench.complains("round 1 of", kRunTime)) << bench.transcript();
  EXPECT_FALSE(exists(left));
  EXPECT_EQ(made_by(bench.pid()).size(), 2U);
  bench.signal(SIGKILL);
  ASSERT_TRUE(bench.wait_status().has_value());
  const std::int64_t until = now_ms() + kPatience.count();
  while (!made_by(bench.pid()).empty() && now_ms() < until) std::this_thread::yield();
  EXPECT_EQ(made_by(bench.pid()), std::set<std::string>());
  for (const std::string& name : {living, elsewhere, unknown}) EXPECT_TRUE(exists(name)) << name;
}

TEST_F(BenchCompress, RefusesUnknownValues) {
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
    expect_nothing_left(bench);
  }
}

TEST_F(BenchCompress, UsersOtherThanRootAreRefused) {
  Child bench({.command = {"/usr/bin/setpriv", "--reuid", "65534", "--clear-groups", TALLY_PROGRAM,
                           "bench", "compress"}});
  EXPECT_TRUE(bench.exits(2)) << bench.transcript();
  EXPECT_THAT(bench.errors(), HasSubstr("only root can make"));
}

}  // namespace
}  // namespace tally::process
