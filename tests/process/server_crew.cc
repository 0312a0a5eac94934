#include "process/server_crew.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "process/server_content.h"

namespace tally::process {
namespace {

constexpr char kSecretByte = 0x37;

// The number that follows `word`.
int number_after(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  int value = 0;
  if (at == std::string::npos) return 0;
  std::from_chars(text.data() + at + word.size(), text.data() + text.size(), value);
  return value;
}

void note(ServerCrew::Seen& seen, float value, std::optional<float>& first) {
  seen.least = std::min(seen.least, static_cast<int>(value));
  seen.most = std::max(seen.most, static_cast<int>(value));
  if (std::floor(value) != value || value < 0) seen.whole = false;
  if (first && *first != value) seen.whole = false;
  first = value;
}

}  // namespace

std::string directory_address(Child& directory) {
  const std::string before = "directory at ";
  const auto line = directory.line_with(before);
  EXPECT_TRUE(line.has_value()) << directory.transcript();
  if (!line) return "";
  const std::size_t at = line->find(before) + before.size();
  return line->substr(at, line->find(',') - at);
}

std::string write_secret(const Folder& folder, const std::string& name, char byte) {
  const std::string path = folder.file(name);
  write_file(path, std::string(32, byte));
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

ServerCrew::ServerCrew(const Options& options) : options_(options) {
  write_secret(folder_, "secret", kSecretByte);
  std::vector<std::string> command = {TALLY_PROGRAM,
                                      "serve",
                                      "--directory",
                                      "--servers",
                                      std::to_string(options.servers),
                                      "--replicas",
                                      std::to_string(options.replicas),
                                      "--silence-limit",
                                      options.silence_limit,
                                      "--failover-limit",
                                      options.failover_limit};
  const auto words = secret_words();
  command.insert(command.end(), words.begin(), words.end());
  directory_ = std::make_unique<Child>(Child::Options{command, {}});
  address_ = directory_address(*directory_);
  if (address_.empty()) return;
  for (int i = 0; i < options.servers; ++i) add_server();
  for (int i = 0; i < options.workers; ++i) {
    std::vector<std::string> worker = {TALLY_SERVER_WORKER, std::to_string(i), "--directory",
                                       address_};
    if (!options.transport.empty()) worker.insert(worker.end(), {"--transport", options.transport});
    if (!words.empty()) worker.insert(worker.end(), {"--secret", folder_.file("secret")});
    workers_.push_back(std::make_unique<Child>(Child::Options{worker, {}}));
  }
}

std::vector<std::string> ServerCrew::secret_words() const {
  if (options_.transport != "tls") return {};
  return {"--secret-file", folder_.file("secret")};
}

void ServerCrew::add_server() {
  std::vector<std::string> command = {TALLY_PROGRAM, "serve", "--server", "--directory-at",
                                      address_};
  const auto words = secret_words();
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), options_.server_words.begin(), options_.server_words.end());
  servers_.push_back(std::make_unique<Child>(Child::Options{command, {}}));
}

bool ServerCrew::ready() {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->line("ready").has_value(); });
}

server::ClientOptions ServerCrew::client_options(int rank) const {
  server::ClientOptions options;
  options.directory = address_;
  options.rank = rank;
  if (options_.transport == "tcp") options.transport = TransportKind::kTcp;
  if (options_.transport == "tls") options.transport = TransportKind::kTls;
  if (options_.transport == "tls") {
    options.secret.emplace();
    options.secret->bytes.fill(static_cast<std::byte>(kSecretByte));
  }
  return options;
}

std::optional<int> ServerCrew::stop(int rank) {
  worker(rank).tell("stop");
  const auto line = worker(rank).line("done ");
  if (!line) return std::nullopt;
  longest_ms_ = std::max(longest_ms_, static_cast<double>(number_after(*line, "longest ")));
  return number_after(*line, "done ");
}

int ServerCrew::acknowledged_by_killed(int rank) {
  // No line starts so: reads the output to its end.
  worker(rank).line("no such line");
  const std::string& output = worker(rank).output();
  // An incomplete last line does not count.
  const std::size_t end = output.rfind('\n');
  const std::size_t at = end == std::string::npos ? end : output.rfind("acknowledged ", end);
  return at == std::string::npos ? 0 : number_after(output.substr(at), "acknowledged ");
}

std::vector<ServerCrew::Seen> ServerCrew::look() {
  const auto client = server::Client::connect(client_options(kMostWorkers - 1));
  EXPECT_TRUE(client.has_value()) << client.error().message;
  if (!client.has_value()) return {};
  const auto dense = (*client)->define(dense_spec(), soon());
  const auto sparse = (*client)->define(sparse_spec(), soon());
  EXPECT_TRUE(dense.has_value() && sparse.has_value());
  if (!dense.has_value() || !sparse.has_value()) return {};
  std::vector<float> values(kDenseElements);
  std::vector<float> rows(kKeys * kMostWorkers);
  const std::vector<std::uint64_t> keys = all_keys();
  const auto pulled = (*client)->wait((*client)->pull({*dense, 0, (*client)->parts(*dense)}, {},
                                                      std::as_writable_bytes(std::span(values))),
                                      soon());
  const auto fetched = (*client)->wait((*client)->pull(*sparse, {}, keys, rows), soon());
  EXPECT_TRUE(pulled.has_value()) << pulled.error().message;
  EXPECT_TRUE(fetched.has_value()) << fetched.error().message;
  if (!pulled.has_value() || !fetched.has_value()) return {};
  std::vector<Seen> seen(workers_.size());
  const std::size_t part = (*client)->part_elements(*dense);
  for (std::size_t w = 0; w < seen.size(); ++w) {
    for (std::size_t begin = 0; begin < values.size(); begin += part) {
      std::optional<float> first;
      const std::size_t end = std::min(begin + part, values.size());
      for (std::size_t i = begin; i < end; ++i)
        if (i % kMostWorkers == w) note(seen[w], values[i], first);
    }
    for (std::size_t i = w; i < rows.size(); i += kMostWorkers) {
      std::optional<float> first;
      note(seen[w], rows[i], first);
    }
  }
  return seen;
}

std::string ServerCrew::transcript() {
  std::string text = directory_->transcript();
  for (const auto& each : servers_) text += each->transcript();
  for (const auto& each : workers_) text += each->transcript();
  return text;
}

}  // namespace tally::process
