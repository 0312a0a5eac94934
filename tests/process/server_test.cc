// Parameter servers as processes: the tables contain all acknowledged pushes, also after a process
// died.
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "net/socket.h"
#include "net/stream.h"
#include "process/server_content.h"
#include "process/server_crew.h"

namespace tally::process {
namespace {

using namespace std::chrono_literals;

void expect_exactly(const ServerCrew::Seen& seen, int count, const std::string& what) {
  EXPECT_TRUE(seen.whole) << what;
  EXPECT_EQ(seen.least, count) << what;
  EXPECT_EQ(seen.most, count) << what;
}

class ServersOver : public testing::TestWithParam<const char*> {};

TEST_P(ServersOver, SumsAreExact) {
  ServerCrew crew({.servers = 2, .workers = 2, .transport = GetParam()});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(crew.worker(rank).line("acknowledged 5").has_value()) << crew.transcript();
  const auto first = crew.stop(0);
  const auto second = crew.stop(1);
  ASSERT_TRUE(first && second) << crew.transcript();
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 2U);
  expect_exactly(seen[0], *first, "rank 0");
  expect_exactly(seen[1], *second, "rank 1");
  crew.directory().signal(SIGTERM);
  EXPECT_TRUE(crew.directory().exits(0)) << crew.directory().transcript();
  EXPECT_TRUE(crew.server(0).exits(3)) << crew.server(0).transcript();
}

INSTANTIATE_TEST_SUITE_P(Ways, ServersOver, testing::Values("shm", "tcp", "tls"),
                         [](const auto& way) { return std::string(way.param); });

// Three servers with two copies of each part. One server is killed; in some runs another server
// joins before, or a worker is killed.
void survive(std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Rng rng(seed);
  const char* const ways[] = {"shm", "tcp", "tls"};
  ServerCrew crew({.servers = 3, .workers = 2, .replicas = 2, .transport = ways[rng.below(3)]});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  const auto some_time = [&rng] {
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(150000)));
  };
  const bool joins = rng.below(2) == 0;
  const bool loses_worker = rng.below(2) == 0;
  if (joins) crew.add_server();
  some_time();
  crew.server(static_cast<int>(rng.below(3))).signal(SIGKILL);
  some_time();
  if (loses_worker) crew.worker(1).signal(SIGKILL);
  // A push after the kill is acknowledged.
  ASSERT_TRUE(crew.worker(0).line("acknowledged").has_value()) << crew.transcript();
  some_time();
  const auto first = crew.stop(0);
  ASSERT_TRUE(first.has_value()) << crew.transcript();
  const auto second = loses_worker ? crew.acknowledged_by_killed(1) : crew.stop(1).value_or(-1);
  ASSERT_GE(second, 0) << crew.transcript();
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 2U) << crew.transcript();
  expect_exactly(seen[0], *first, "rank 0");
  EXPECT_TRUE(seen[1].whole);
  EXPECT_GE(seen[1].least, second);
  EXPECT_LE(seen[1].most, second + (loses_worker ? kWindow : 0));
  fmt::print("seed {}: {} and {} pushes, longest {:.0f} ms{}{}\n", seed, *first, second,
             crew.longest_ms(), joins ? ", one server joined" : "",
             loses_worker ? ", rank 1 killed" : "");
}

TEST(ServerChaos, AcknowledgedPushesSurviveAKilledServer) {
  // TALLY_SOAK_RUNS sets another number of runs.
  const char* runs = std::getenv("TALLY_SOAK_RUNS");
  const int count = runs != nullptr ? std::atoi(runs) : 20;
  for (int seed = 1; seed <= count && !testing::Test::HasFatalFailure(); ++seed)
    survive(static_cast<std::uint64_t>(seed));
}

TEST(Servers, AStoppedServerIsGivenUp) {
  ServerCrew crew(
      {.servers = 2, .workers = 1, .silence_limit = scaled_seconds(milliseconds(1500)) + "s"});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  ASSERT_TRUE(crew.worker(0).line("acknowledged").has_value());
  crew.server(0).stop();
  ASSERT_TRUE(crew.directory().line_with("was silent for").has_value()) << crew.transcript();
  ASSERT_TRUE(crew.worker(0).line("acknowledged").has_value()) << crew.transcript();
  const auto count = crew.stop(0);
  ASSERT_TRUE(count.has_value()) << crew.transcript();
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 1U) << crew.transcript();
  expect_exactly(seen[0], *count, "rank 0");
  crew.server(0).signal(SIGCONT);
  EXPECT_TRUE(crew.server(0).exits(3)) << crew.transcript();
}

TEST(Servers, AFullMemoryLimitIsAClearError) {
  ServerCrew crew({.servers = 1, .workers = 0, .server_words = {"--memory-limit", "8MiB"}});
  const auto client = server::Client::connect(crew.client_options(0));
  ASSERT_TRUE(client.has_value()) << client.error().message << crew.transcript();
  server::TableSpec spec = dense_spec();
  spec.name = "large";
  spec.count = std::size_t{16} << 20;
  const auto large = (*client)->define(spec, soon());
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kExhausted) << large.error().message;
  EXPECT_NE(large.error().message.find("of 8388608 are in use"), std::string::npos)
      << large.error().message;
  // Rows that do not fit are refused, and the others go on.
  const auto sparse = (*client)->define(sparse_spec(), soon());
  ASSERT_TRUE(sparse.has_value()) << sparse.error().message;
  std::vector<std::uint64_t> keys(1 << 20);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  std::vector<float> rows(keys.size() * kMostWorkers, 1.0F);
  const auto pushed = (*client)->wait(
      (*client)->push(*sparse, {.kind = server::PushKind::kAdd}, keys, rows), soon());
  ASSERT_FALSE(pushed.has_value());
  EXPECT_EQ(pushed.error().code, ErrorCode::kExhausted) << pushed.error().message;
  const auto few = (*client)->wait(
      (*client)->push(*sparse, {.kind = server::PushKind::kAdd}, std::span(keys).first(3),
                      std::span(rows).first(3 * kMostWorkers)),
      soon());
  EXPECT_TRUE(few.has_value()) << few.error().message;
}

TEST(Servers, StrangersDisturbNobody) {
  ServerCrew crew({.servers = 1, .workers = 1});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  const std::size_t colon = crew.address().rfind(':');
  const net::Address directory{
      crew.address().substr(0, colon),
      static_cast<std::uint16_t>(std::stoi(crew.address().substr(colon + 1)))};
  std::vector<net::Socket> strangers;
  for (int i = 0; i < 100; ++i) {
    auto stranger = net::connect(directory, soon());
    ASSERT_TRUE(stranger.has_value());
    if (i % 2 == 0) {
      const auto stream = net::plain_stream(std::move(*stranger));
      const std::string words = "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n and more of the same";
      EXPECT_TRUE(net::write_all(*stream, std::as_bytes(std::span(words)), soon()).has_value());
    } else {
      strangers.push_back(*std::move(stranger));
    }
  }
  ASSERT_TRUE(crew.directory().line_with("was refused").has_value()) << crew.transcript();
  strangers.clear();
  // A new client is accepted.
  const auto count = crew.stop(0);
  ASSERT_TRUE(count.has_value()) << crew.transcript();
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 1U);
  expect_exactly(seen[0], *count, "rank 0");
}

TEST(Servers, LossOfAllCopiesIsReported) {
  ServerCrew crew({.servers = 2, .workers = 1, .replicas = 1});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  crew.server(1).signal(SIGKILL);
  EXPECT_TRUE(crew.directory().line_with("nobody is left who has the parts").has_value())
      << crew.transcript();
  EXPECT_TRUE(crew.worker(0).exits(1)) << crew.transcript();
  EXPECT_TRUE(crew.worker(0).complains("kPeerLost")) << crew.transcript();
}

TEST(Servers, OfTallyRunServeItsRanks) {
  Child run({{TALLY_PROGRAM, "run", "-n", "2", "--servers", "2", "--", "/bin/sh", "-c",
              std::string("exec ") + TALLY_SERVER_WORKER + " $RANK --count 20"},
             {}});
  EXPECT_TRUE(run.exits(0)) << run.transcript();
  EXPECT_EQ(run.errors().find("is gone"), std::string::npos) << run.transcript();
  std::size_t done = 0;
  for (std::size_t at = 0; (at = run.output().find("done 20", at)) != std::string::npos; ++at)
    ++done;
  EXPECT_EQ(done, 2U) << run.transcript();
}

// The server waits for an answer of its directory.
TEST(Servers, OneThatIsJoiningEndsOnSigterm) {
  auto nobody = net::Listener::bind({"127.0.0.1", 0});
  ASSERT_TRUE(nobody.has_value());
  const std::string address = to_string(nobody->address());
  Child server(
      {{TALLY_PROGRAM, "serve", "--server", "--directory-at", address, "--join-timeout", "600s"},
       {}});
  // It has connected: it is joining.
  ASSERT_TRUE(nobody->accept(soon()).has_value()) << server.transcript();
  server.signal(SIGTERM);
  EXPECT_TRUE(server.exits(130)) << server.transcript();
}

TEST(Servers, OneProcessServesAlone) {
  Child both({{TALLY_PROGRAM, "serve", "--listen", "127.0.0.1:0"}, {}});
  const auto line = both.line_with("of the directory at ");
  ASSERT_TRUE(line.has_value()) << both.transcript();
  const std::string address = line->substr(line->rfind(' ') + 1);
  Child worker({{TALLY_SERVER_WORKER, "0", "--directory", address, "--count", "3"}, {}});
  EXPECT_TRUE(worker.line("done 3").has_value()) << worker.transcript();
  EXPECT_TRUE(worker.exits(0)) << worker.transcript();
  both.signal(SIGTERM);
  EXPECT_TRUE(both.exits(0)) << both.transcript();
}

}  // namespace
}  // namespace tally::process
