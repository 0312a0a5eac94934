#include "process/crew.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/check.h"
#include "net/socket.h"

namespace tally::process {
namespace {

std::string made(const std::string& path) {
  std::filesystem::create_directory(path);
  return path;
}

// Lines of /proc/net/tcp begin "1: 0100007F:4E20 0100007F:D431 01", where 01 stands for an
// established connection and ports are hexadecimal; one line for each side.
int established_at(std::uint16_t port) {
  std::ifstream table("/proc/net/tcp");
  const std::string ending = fmt::format(":{:04X}", port);
  int count = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    words >> number >> local >> remote >> state;
    if (state == "01" && local.ends_with(ending)) ++count;
  }
  return count;
}

}  // namespace

std::uint16_t unused_port() {
  // Below the range from which the system picks ports. Test programs that run at the same time
  // begin at different ports.
  constexpr int kFirst = 20000;
  constexpr int kCount = 12000;
  static int next = getpid() * 101 % kCount;
  for (int tries = 0; tries < kCount; ++tries) {
    const auto port = static_cast<std::uint16_t>(kFirst + next++ % kCount);
    if (net::Listener::bind({.host = "127.0.0.1", .port = port}).has_value()) return port;
  }
  TALLY_UNREACHABLE();
}

testing::AssertionResult await_connections(std::uint16_t port, int count) {
  const std::int64_t end = now_ms() + kPatience.count();
  while (established_at(port) < count) {
    if (now_ms() >= end)
      return testing::AssertionFailure() << "fewer than " << count << " connections at " << port;
    std::this_thread::sleep_for(milliseconds(5));
  }
  // The listener reads the first message of each within this time.
  std::this_thread::sleep_for(scaled(milliseconds(50)));
  return testing::AssertionSuccess();
}

Crew::Crew(const CrewOptions& options)
    : options_(options), temp_folder_(made(folder_.path() + "/tmp")), port_(unused_port()) {}

std::string Crew::secret_file(int seed) const {
  const std::string path = fmt::format("{}/secret{}", folder_.path(), seed);
  // Written only once: workers that already run may be reading it.
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.open()) return path;
  const std::string bytes(32, static_cast<char>(seed));
  TALLY_CHECK(write(file.descriptor(), bytes.data(), bytes.size()) == 32);
  return path;
}

Child& Crew::start(Rank rank, const std::vector<std::string>& words, const Variables& changes) {
  Variables variables{{"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(options_.size)},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", std::to_string(port_)},
                      {"TALLY_TRANSPORT", options_.transport},
                      {"TALLY_TIMEOUT", options_.timeout_s},
                      {"TALLY_JOIN_TIMEOUT", options_.join_timeout_s},
                      {"TMPDIR", temp_folder_}};
  if (options_.transport == "tls") variables["TALLY_SECRET_FILE"] = secret_file(kSecretSeed);
  for (const auto& [name, value] : changes) variables[name] = value;
  std::erase_if(variables, [](const auto& variable) { return variable.second.empty(); });
  std::vector<std::string> command{TALLY_WORKER_PROGRAM};
  command.insert(command.end(), words.begin(), words.end());
  children_.push_back(std::make_unique<Child>(Child::Options{command, variables}));
  return *children_.back();
}

void Crew::start_all(const std::vector<std::string>& words) {
  for (Rank rank = 0; rank < options_.size; ++rank) start(rank, words);
}

testing::AssertionResult Crew::all_say(const std::string& start) {
  for (const auto& child : children_) {
    if (!child->line(start))
      return testing::AssertionFailure() << "no line \"" << start << "\"; " << child->transcript();
  }
  return testing::AssertionSuccess();
}

std::optional<Outcome> outcome_of(Child& child) {
  const auto line = child.line("outcome ");
  if (!line) {
    ADD_FAILURE() << "no outcome; " << child.transcript();
    return std::nullopt;
  }
  std::istringstream words(*line);
  std::string word;
  Outcome outcome;
  words >> word >> outcome.code >> outcome.peer >> outcome.at_ms;
  std::getline(words >> std::ws, outcome.message);
  return outcome;
}

std::int64_t expect_outcome(Child& child, const std::string& code, Rank peer,
                            const std::string& in_message) {
  const auto outcome = outcome_of(child);
  if (!outcome) return 0;
  EXPECT_EQ(outcome->code, code) << child.transcript();
  EXPECT_EQ(outcome->peer, peer) << child.transcript();
  EXPECT_NE(outcome->message.find(in_message), std::string::npos)
      << "no \"" << in_message << "\" in: " << outcome->message;
  EXPECT_TRUE(child.exits(3)) << child.transcript();
  return outcome->at_ms;
}

}  // namespace tally::process
