// Parameter servers as processes: the tables contain all acknowledged pushes, also after a process
// died.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <regex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "net/socket.h"
#include "net/stream.h"
#include "other_listener.h"
#include "process/launched.h"
#include "process/processes.h"
#include "process/server_content.h"
#include "process/server_crew.h"
#include "process/strangers.h"
#include "server/link/greeting.h"
#include "server/storage/table_spec.h"

namespace tally::process {
namespace {

using namespace std::chrono_literals;

void expect_exactly(const ServerCrew::Seen& seen, int count, const std::string& what) {
  EXPECT_TRUE(seen.whole) << what;
  EXPECT_EQ(seen.least, count) << what;
  EXPECT_EQ(seen.most, count) << what;
}

net::Address address_in(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  return {text.substr(0, colon), static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1)))};
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

// A server is stopped and given up: its replica takes over, and it ends when it resumes.
void expect_stopped_server_is_given_up(ServerCrew& crew, const std::string& why) {
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  ASSERT_TRUE(crew.worker(0).line("acknowledged").has_value());
  crew.server(0).stop();
  ASSERT_TRUE(crew.directory().line_with(why).has_value()) << crew.transcript();
  ASSERT_TRUE(crew.worker(0).line("acknowledged").has_value()) << crew.transcript();
  const auto count = crew.stop(0);
  ASSERT_TRUE(count.has_value()) << crew.transcript();
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 1U) << crew.transcript();
  expect_exactly(seen[0], *count, "rank 0");
  crew.server(0).signal(SIGCONT);
  EXPECT_TRUE(crew.server(0).exits(3)) << crew.transcript();
}

TEST(Servers, AStoppedServerIsGivenUp) {
  ServerCrew crew(
      {.servers = 2, .workers = 1, .silence_limit = scaled_seconds(milliseconds(1500)) + "s"});
  expect_stopped_server_is_given_up(crew, "was silent for");
}

TEST(Servers, AStoppedServerWithCopiesIsGivenUpThoughItsProcessLives) {
  ServerCrew crew({.servers = 2,
                   .workers = 1,
                   .silence_limit = "0s",
                   .failover_limit = scaled_seconds(milliseconds(1500)) + "s"});
  expect_stopped_server_is_given_up(crew, "and other servers have its parts");
}

TEST(Servers, AStoppedServerAndAStoppedWorkerAreWaitedForWhileTheirProcessesLive) {
  ServerCrew crew({.servers = 2, .workers = 2, .silence_limit = "0s"});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  crew.server(0).stop();
  crew.worker(1).stop();
  std::set<std::string> silent;
  while (silent.size() < 2) {
    const auto line = crew.directory().line_with("; its process lives, the job waits for it");
    ASSERT_TRUE(line.has_value()) << crew.transcript();
    silent.insert(*line);
  }
  crew.server(0).signal(SIGCONT);
  crew.worker(1).signal(SIGCONT);
  ASSERT_TRUE(crew.directory().line_with("is heard of again").has_value()) << crew.transcript();
  ASSERT_TRUE(crew.directory().line_with("is heard of again").has_value()) << crew.transcript();
  std::vector<int> counts;
  for (const int rank : {0, 1}) {
    const auto count = crew.stop(rank);
    ASSERT_TRUE(count.has_value()) << crew.transcript();
    counts.push_back(*count);
  }
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 2U) << crew.transcript();
  expect_exactly(seen[0], counts[0], "rank 0");
  expect_exactly(seen[1], counts[1], "rank 1");
  EXPECT_EQ(crew.directory().output().find("is gone: it was silent"), std::string::npos);
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
  EXPECT_NE(large.error().message.find("of 8388608 bytes are in use"), std::string::npos)
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

// Part 0 has no memory for its rows, and part 1 on the other server has.
TEST(Servers, ARefusedPushSaysHowManyPartsHaveAppliedIt) {
  ServerCrew crew(
      {.servers = 2, .workers = 0, .replicas = 1, .server_words = {"--memory-limit", "8MiB"}});
  const auto client = server::Client::connect(crew.client_options(0));
  ASSERT_TRUE(client.has_value()) << client.error().message << crew.transcript();
  const auto table = (*client)->define(sparse_spec(), soon());
  ASSERT_TRUE(table.has_value()) << table.error().message;
  const std::uint32_t parts = (*client)->parts(*table);
  ASSERT_GT(parts, 1U);
  constexpr std::size_t kMany = 300000;
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < kMany; ++key)
    if (server::part_of_key(key, parts) == 0) keys.push_back(key);
  std::uint64_t other = 0;
  while (server::part_of_key(other, parts) != 1) ++other;
  keys.push_back(other);
  std::vector<float> rows(keys.size() * kMostWorkers, 1.0F);
  const auto push = [&](std::span<const std::uint64_t> some) {
    return (*client)->wait((*client)->push(*table, {.kind = server::PushKind::kAdd}, some,
                                           std::span(rows).first(some.size() * kMostWorkers)),
                           soon());
  };
  const auto read = [&](std::span<const std::uint64_t> some) {
    std::vector<float> values(some.size() * kMostWorkers);
    const auto pulled = (*client)->wait((*client)->pull(*table, {}, some, values), soon());
    EXPECT_TRUE(pulled.has_value()) << pulled.error().message;
    return values;
  };
  const auto refused = push(keys);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_NE(refused.error().message.find("no memory for 300000 more rows"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(fmt::format(
                "of 8388608 bytes are in use; {} other parts have applied the push", parts - 1)),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(read(std::span(keys).first(1)), std::vector<float>(kMostWorkers, 0.0F));
  EXPECT_EQ(read(std::span(keys).last(1)), std::vector<float>(kMostWorkers, 1.0F));
}

TEST(Servers, StrangersDisturbNobody) {
  ServerCrew crew({.servers = 1, .workers = 1});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  const net::Address directory = address_in(crew.address());
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

// The address that a server prints.
std::string server_address(Child& server) {
  const std::string before = "server at ";
  const auto line = server.line_with(before);
  EXPECT_TRUE(line.has_value()) << server.transcript();
  if (!line) return "";
  const std::size_t at = line->find(before) + before.size();
  return line->substr(at, line->find(',') - at);
}

class ServersAmongStrangers : public testing::TestWithParam<const char*> {};

// Strangers fill all places of the directory and of the server before a worker comes.
TEST_P(ServersAmongStrangers, KeepNobodyOut) {
  ServerCrew crew({.servers = 1, .workers = 1, .transport = GetParam()});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  const auto count = crew.stop(0);
  ASSERT_TRUE(count.has_value()) << crew.transcript();
  const SilentConnections at_directory(address_in(crew.address()), 300);
  const SilentConnections at_server(address_in(server_address(crew.server(0))), 300);
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 1U);
  expect_exactly(seen[0], *count, "rank 0");
}

INSTANTIATE_TEST_SUITE_P(Ways, ServersAmongStrangers, testing::Values("shm", "tcp", "tls"),
                         [](const auto& way) { return std::string(way.param); });

TEST(Servers, OtherUsersReachNoTables) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ServerCrew crew({.servers = 1, .workers = 1});
  ASSERT_TRUE(crew.ready()) << crew.transcript();
  EXPECT_FALSE(as_other_user([&] {
    auto socket = net::connect(address_in(crew.address()), soon());
    if (!socket.has_value()) return false;
    server::LinkAnswer answer;
    net::GreetingExchange exchange(net::plain_stream(*std::move(socket)),
                                   server::calling_link({.role = server::Role::kWorker}, answer));
    auto met = exchange.advance();
    while (met.has_value() && !*met) {
      pollfd entry = exchange.poll_entry();
      constexpr int kPatienceMs = 60'000;
      if (::poll(&entry, 1, kPatienceMs) == 0) return false;
      met = exchange.advance();
    }
    return met.has_value();
  }));
  EXPECT_TRUE(crew.directory().line_with("it belongs to user 65534").has_value())
      << crew.transcript();
  const auto count = crew.stop(0);
  ASSERT_TRUE(count.has_value()) << crew.transcript();
  const auto seen = crew.look();
  ASSERT_EQ(seen.size(), 1U);
  expect_exactly(seen[0], *count, "rank 0");
}

TEST(Servers, AWorkerRefusesADirectoryOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const OtherListener nobody(OtherListener::Accepts::kNothing);
  const auto client = server::Client::connect({.directory = to_string(nobody.address())});
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, ErrorCode::kRefused);
  EXPECT_NE(client.error().message.find("it belongs to user 65534"), std::string::npos)
      << client.error().message;
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

// The pid in the first match of `pattern`, whose only group it is; 0 if there is none.
pid_t pid_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stoi(match[1]) : 0;
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

// Each time the server dies that was started last.
TEST(Servers, OfTallyRunAreStartedAgainAFewTimes) {
  Launched job({"-n", "1", "--servers", "2", "--verbose", "--", TALLY_SERVER_WORKER, "0", "--count",
                "1000000000"});
  Child& run = job.tally();
  ASSERT_TRUE(run.line_with("acknowledged")) << run.transcript();
  std::vector<pid_t> servers;
  for (const pid_t pid : job.started())
    if (words_of(pid).find("--server") != std::string::npos) servers.push_back(pid);
  ASSERT_EQ(servers.size(), 2U);
  pid_t victim = servers.front();
  for (int restart = 1; restart <= 3; ++restart) {
    ASSERT_GT(victim, 0) << run.transcript();
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    ASSERT_TRUE(run.complains(fmt::format("(restart {} of 3)", restart))) << run.transcript();
    const std::string errors = run.errors();
    EXPECT_THAT(errors, testing::ContainsRegex(fmt::format(
                            "server [0-9]+ \\(pid {}\\) was killed by signal 9 \\(Killed\\): "
                            "started again as pid",
                            victim)));
    victim = pid_in(errors, fmt::format("as pid ([0-9]+) \\(restart {} of 3\\)", restart));
    // The worker goes on, and the new server joins the two that were there.
    const std::int64_t end = now_ms() + kPatience.count();
    while (times(run.errors(), ") joined") < 2 + restart) {
      ASSERT_TRUE(run.line_with("acknowledged")) << run.transcript();
      ASSERT_LT(now_ms(), end) << run.transcript();
    }
  }
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  EXPECT_TRUE(run.complains("it is not started again after 3 restarts")) << run.transcript();
  ASSERT_TRUE(run.line_with("acknowledged")) << run.transcript();
}

TEST(Servers, OfTallyRunWithoutCopiesAreNotStartedAgain) {
  Launched job(
      {"-n", "1", "--servers", "1", "--", TALLY_SERVER_WORKER, "0", "--count", "1000000000"});
  ASSERT_TRUE(job.tally().line_with("acknowledged")) << job.tally().transcript();
  for (const pid_t pid : job.started())
    if (words_of(pid).find("--server") != std::string::npos) kill(pid, SIGKILL);
  // The worker may end the job before the launcher says why it starts no server.
  EXPECT_TRUE(job.tally().exits(1)) << job.tally().transcript();
  EXPECT_THAT(job.tally().errors(), testing::Not(testing::HasSubstr("restart")))
      << job.tally().transcript();
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
