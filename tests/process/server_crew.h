#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/child.h"
#include "process/crew.h"
#include "tally/server.h"

namespace tally::process {

// A directory, servers and workers as processes, on loopback.
class ServerCrew final {
 public:
  struct Options {
    int servers = 1;
    int workers = 1;
    int replicas = 0;
    std::string silence_limit = "5s";
    std::vector<std::string> server_words;  // further arguments of each server
    std::string transport;                  // of the workers; "tls": with a secret
  };
  explicit ServerCrew(const Options& options);

  // Whether all workers have begun; their tables are there then.
  bool ready();
  void add_server();
  Child& directory() { return *directory_; }
  Child& server(int index) { return *servers_.at(static_cast<std::size_t>(index)); }
  Child& worker(int rank) { return *workers_.at(static_cast<std::size_t>(rank)); }
  int servers() const { return static_cast<int>(servers_.size()); }
  const std::string& address() const { return address_; }
  server::ClientOptions client_options(int rank) const;

  // Stops a worker, which lives: how often its pushes were acknowledged.
  std::optional<int> stop(int rank);
  // What a killed worker had said before.
  int acknowledged_by_killed(int rank);
  // The longest time from push to acknowledgement that stop() was told of.
  double longest_ms() const { return longest_ms_; }

  // How often the tables have each worker's push, everywhere: least and most over elements and rows
  // of one part. Empty, with a failed expectation, where they cannot be read.
  struct Seen {
    int least = 1 << 30;
    int most = 0;
    bool whole = true;  // within every part all elements agree
  };
  std::vector<Seen> look();

  std::string transcript();

 private:
  std::vector<std::string> secret_words() const;

  const Options options_;
  const Folder folder_;
  std::unique_ptr<Child> directory_;
  std::vector<std::unique_ptr<Child>> servers_;
  std::vector<std::unique_ptr<Child>> workers_;
  std::string address_;
  double longest_ms_ = 0;
};

}  // namespace tally::process
