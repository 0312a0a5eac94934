// A worker of the parameter servers. It pushes until it reads a line, or --count times, and prints
// after each round how many pushes were acknowledged.
//
//   server_worker RANK [--directory HOST:PORT] [--secret FILE] [--transport shm|tcp|tls]
//                      [--count N] [--join SECONDS]
//   server_worker RANK ... --check N --workers K    checks that K workers have pushed N times each
//
// TALLY_DIRECTORY and TALLY_SECRET_FILE replace the first two options.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>

#include "process/server_content.h"
#include "tally/server.h"

namespace tally::process {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::duration<double, std::milli>;

Deadline soon() { return Deadline::after(120s); }

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

bool told_to_stop() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, 0) > 0;
}

std::string text_or(const std::map<std::string, std::string>& options, const std::string& name,
                    const char* variable) {
  const auto found = options.find(name);
  if (found != options.end()) return found->second;
  const char* value = variable != nullptr ? std::getenv(variable) : nullptr;
  return value != nullptr ? value : "";
}

Result<server::ClientOptions> options_of(int rank,
                                         const std::map<std::string, std::string>& words) {
  server::ClientOptions options;
  options.rank = rank;
  options.directory = text_or(words, "--directory", "TALLY_DIRECTORY");
  if (const std::string join = text_or(words, "--join", nullptr); !join.empty())
    options.join_timeout = std::chrono::seconds(std::stoi(join));
  const std::string secret = text_or(words, "--secret", "TALLY_SECRET_FILE");
  const std::string transport = text_or(words, "--transport", nullptr);
  if (transport == "tcp") options.transport = TransportKind::kTcp;
  if (transport == "tls") options.transport = TransportKind::kTls;
  if (transport == "shm") options.transport = TransportKind::kShm;
  if (secret.empty()) return options;
  std::ifstream file(secret, std::ios::binary);
  Secret read;
  if (!file.read(reinterpret_cast<char*>(read.bytes.data()),
                 static_cast<std::streamsize>(read.bytes.size())))
    return Error{.code = ErrorCode::kInvalid, .message = "no secret in " + secret};
  options.secret = read;
  return options;
}

class Pusher final {
 public:
  Pusher(server::Client& client, int rank) : client_(client), rank_(rank) {}

  Result<void> prepare() {
    TALLY_TRY(dense_, client_.define(dense_spec(), soon()));
    TALLY_TRY(sparse_, client_.define(sparse_spec(), soon()));
    TALLY_TRY(memory_, client_.allocate(kDenseElements * sizeof(float)));
    const std::vector<float> values = dense_push(rank_);
    std::memcpy(memory_.data(), values.data(), memory_.size());
    return {};
  }

  void begin() {
    const server::PushOptions facts{.kind = server::PushKind::kAdd};
    rounds_.push_back({client_.push({dense_, 0, client_.parts(dense_)}, facts, memory_),
                       client_.push(sparse_, facts, keys_, rows_),
                       std::chrono::steady_clock::now()});
  }

  // Waits for the oldest round; does nothing if none is under way.
  Result<void> finish() {
    if (rounds_.empty()) return {};
    const Round round = rounds_.front();
    rounds_.pop_front();
    TALLY_TRY(client_.wait(round.dense, soon()));
    TALLY_TRY(client_.wait(round.sparse, soon()));
    ++acknowledged_;
    const Milliseconds took = std::chrono::steady_clock::now() - round.began;
    longest_ = std::max(longest_, took);
    return {};
  }

  std::size_t under_way() const { return rounds_.size(); }
  int acknowledged() const { return acknowledged_; }
  double longest_ms() const { return longest_.count(); }

 private:
  struct Round {
    server::Ticket dense;
    server::Ticket sparse;
    std::chrono::steady_clock::time_point began;
  };
  server::Client& client_;
  const int rank_;
  server::TableId dense_ = 0;
  server::TableId sparse_ = 0;
  std::span<std::byte> memory_;
  const std::vector<std::uint64_t> keys_ = all_keys();
  const std::vector<float> rows_ = sparse_push(rank_);
  std::deque<Round> rounds_;
  int acknowledged_ = 0;
  Milliseconds longest_{0};
};

// Checks that the tables contain each worker's push `times` times, and nothing else.
Result<void> check(server::Client& client, int times, int workers) {
  TALLY_TRY(const server::TableId dense, client.define(dense_spec(), soon()));
  TALLY_TRY(const server::TableId sparse, client.define(sparse_spec(), soon()));
  std::vector<float> values(kDenseElements);
  std::vector<float> rows(kKeys * kMostWorkers);
  TALLY_TRY(client.wait(
      client.pull({dense, 0, client.parts(dense)}, {}, std::as_writable_bytes(std::span(values))),
      soon()));
  TALLY_TRY(client.wait(client.pull(sparse, {}, all_keys(), rows), soon()));
  for (const auto* all : {&values, &rows}) {
    for (std::size_t i = 0; i < all->size(); ++i) {
      const bool pushed = i % kMostWorkers < static_cast<std::size_t>(workers);
      if ((*all)[i] != (pushed ? static_cast<float>(times) : 0.0F))
        return Error{.code = ErrorCode::kMismatch,
                     .message = fmt::format("element {} is {}", i, (*all)[i])};
    }
  }
  return {};
}

Result<void> work(int rank, const std::map<std::string, std::string>& words) {
  TALLY_TRY(const server::ClientOptions options, options_of(rank, words));
  TALLY_TRY(const auto client, server::Client::connect(options, [](const std::string& sentence) {
              fmt::print(stderr, "{}\n", sentence);
            }));
  if (const std::string times = text_or(words, "--check", nullptr); !times.empty())
    return check(*client, std::stoi(times), std::stoi(text_or(words, "--workers", nullptr)));
  Pusher pusher(*client, rank);
  TALLY_TRY(pusher.prepare());
  say("ready");
  const std::string count = text_or(words, "--count", nullptr);
  const int most = count.empty() ? 1 << 30 : std::stoi(count);
  int begun = 0;
  for (bool stop = false; !stop || pusher.under_way() > 0;) {
    stop = stop || begun == most || (count.empty() && told_to_stop());
    if (!stop && pusher.under_way() < kWindow) {
      pusher.begin();
      ++begun;
      continue;
    }
    TALLY_TRY(pusher.finish());
    say(fmt::format("acknowledged {}", pusher.acknowledged()));
  }
  say(fmt::format("done {} longest {:.0f} ms", pusher.acknowledged(), pusher.longest_ms()));
  return {};
}

}  // namespace
}  // namespace tally::process

int main(int argc, char** argv) {
  std::map<std::string, std::string> words;
  for (int i = 2; i + 1 < argc; i += 2) words[argv[i]] = argv[i + 1];
  const char* rank = argc > 1 ? argv[1] : std::getenv("RANK");
  const auto outcome = tally::process::work(std::stoi(rank), words);
  if (outcome.has_value()) return 0;
  fmt::print(stderr, "{}\n", tally::to_string(outcome.error()));
  return 1;
}
