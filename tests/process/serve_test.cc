// `tally serve` and `tally status` as users run them: refusals and their messages.
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "net/socket.h"
#include "process/launched.h"
#include "process/watched_crew.h"

namespace tally::process {
namespace {

std::vector<std::string> serve(const std::string& job, const std::vector<std::string>& more) {
  std::vector<std::string> command{TALLY_PROGRAM, "serve", "--coordinator", "--job", job};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::string own_name(const std::string& word) { return fmt::format("{}-{}", word, getpid()); }

TEST(Serve, WrongUsageExitsWithTwoAndNamesTheOption) {
  const struct {
    std::vector<std::string> command;
    std::string said;
  } cases[] = {
      {serve("a", {"--size", "2", "--listen", "here"}), "--listen 'here' is not HOST:PORT"},
      {serve("a b", {"--size", "2"}), "--job a b: need 1 to 64 letters"},
      {serve("a", {"--size", "2", "--secret-file", "/nowhere"}), "--secret-file /nowhere: No such"},
  };
  for (const auto& each : cases) {
    Child child({each.command, {}});
    EXPECT_TRUE(child.exits(2)) << child.transcript();
    EXPECT_TRUE(child.complains(each.said)) << child.transcript();
  }
}

TEST(Serve, StateOfAnotherSizeIsRefused) {
  const Folder folder;
  const std::string path = folder.path() + "/state";
  const std::string job = own_name("sizes");
  std::ofstream(path) << "tally coordinator state 1\njob " << job
                      << "\ngeneration 1\nsize 2\nmember 0 4711 present a \nend\n";
  Child child({serve(job, {"--size", "3", "--state-file", path}), {}});
  EXPECT_TRUE(child.exits(2));
  EXPECT_TRUE(child.complains("is the state of a job of 2 ranks, this one has 3"))
      << child.transcript();
}

// Survivors in a new group are fewer ranks than the job began with.
TEST(Serve, StateOfFewerRanksInALaterGenerationIsAccepted) {
  const Folder folder;
  const std::string path = folder.path() + "/state";
  const std::string job = own_name("fewer");
  std::ofstream(path) << "tally coordinator state 1\njob " << job
                      << "\ngeneration 2\nsize 2\nmember 0 4711 present a \nend\n";
  Child child({serve(job, {"--size", "3", "--state-file", path}), {}});
  EXPECT_TRUE(child.line_with("watching job").has_value()) << child.transcript();
}

TEST(Serve, SecondJobOfTheSameNameGetsAnother) {
  const std::string job = own_name("same");
  Child first({serve(job, {"--size", "2"}), {}});
  ASSERT_TRUE(first.line_with("watching job").has_value()) << first.transcript();
  Child second({serve(job, {"--size", "2"}), {}});
  EXPECT_TRUE(
      second.line_with(fmt::format("another job here is called {0}: this one is {0}.2", job))
          .has_value())
      << second.transcript();
  Launched third({"-n", "1", "--job", job, "--", "true"});
  EXPECT_TRUE(third.tally().complains(fmt::format("this one is {}.3 for tally status", job)))
      << third.tally().transcript();
  EXPECT_TRUE(third.tally().exits(0));
}

// Sanitizers need free descriptors, of which this test leaves none.
#if !defined(TALLY_SANITIZED)
std::int64_t processor_ticks(pid_t pid) {
  std::istringstream words(contents_of(fmt::format("/proc/{}/stat", pid)));
  std::string word;
  std::int64_t user = 0;
  std::int64_t system = 0;
  for (int i = 0; i < 13; ++i) words >> word;
  words >> user >> system;
  return user + system;
}

TEST(Serve, IsIdleAndAnswersWhenStrangersHaveTakenAllDescriptors) {
  const std::uint16_t port = unused_port();
  Child child({{"/bin/sh", "-c",
                fmt::format("ulimit -n 24; exec {} serve --coordinator --job {} --size 2 --listen "
                            "127.0.0.1:{}",
                            TALLY_PROGRAM, own_name("full"), port)},
               {}});
  ASSERT_TRUE(child.line_with("watching job").has_value()) << child.transcript();
  std::vector<net::Socket> callers;
  for (int i = 0; i < 40; ++i) {
    auto caller = net::connect({"127.0.0.1", port}, soon());
    ASSERT_TRUE(caller.has_value());
    callers.push_back(*std::move(caller));
  }
  ASSERT_TRUE(child.line_with("too many say nothing").has_value()) << child.transcript();
  const std::int64_t before = processor_ticks(child.pid());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LE(processor_ticks(child.pid()) - before, sysconf(_SC_CLK_TCK) / 10);
  Child status({{TALLY_PROGRAM, "status", own_name("full")}, {}});
  EXPECT_TRUE(status.exits(0)) << status.transcript();
}
#endif

TEST(Status, WithoutTheSecretSaysThatOneMayBeNeeded) {
  WatchedCrew crew({.crew = {.transport = "tls", .size = 2}});
  Child child(
      {{TALLY_PROGRAM, "status", "--coordinator", fmt::format("127.0.0.1:{}", crew.port())}, {}});
  EXPECT_TRUE(child.exits(1));
  EXPECT_TRUE(child.complains("it may want --secret-file")) << child.transcript();
}

TEST(Output, ThatCannotBeWrittenIsAFailure) {
  const std::string job = own_name("place");
  Child server({serve(job, {"--size", "2"}), {}});
  ASSERT_TRUE(server.line_with("watching job").has_value()) << server.transcript();
  for (const std::string& command :
       {fmt::format("{} status {} --json > /dev/full", TALLY_PROGRAM, job),
        fmt::format("{} bench simulate --ranks 4 --bytes 1MiB > /dev/full", TALLY_PROGRAM)}) {
    Child child({{"/bin/sh", "-c", command}, {}});
    EXPECT_TRUE(child.exits(1)) << command;
    EXPECT_TRUE(child.complains("cannot write all of the output")) << child.transcript();
  }
}

}  // namespace
}  // namespace tally::process
