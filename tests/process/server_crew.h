#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/child.h"
#include "process/crew.h"
#include "tally/server.h"

namespace tally::process {

// The address that a `tally serve --directory` prints; fails the test if it prints none.
std::string directory_address(Child& directory);

// A file with a secret of 32 such bytes, which only this user can read.
std::string write_secret(const Folder& folder, const std::string& name, char byte);

// A directory, servers and workers, each a process, on loopback.
class ServerCrew final {
 public:
  struct Options {
    int servers = 1;
    int workers = 1;
    int replicas = 0;
    std::string silence_limit = kNever + "s";
    std::string failover_limit = kNever + "s";
    std::vector<std::string> server_words;  // further arguments of each server
    std::string transport;                  // of the workers; "tls": with a secret
  };
  explicit ServerCrew(const Options& options);

  // Whether all workers have begun; then their tables exist.
  bool ready();
  void add_server();
  Child& directory() { return *directory_; }
  Child& server(int index) { return *servers_.at(static_cast<std::size_t>(index)); }
  Child& worker(int rank) { return *workers_.at(static_cast<std::size_t>(rank)); }
  int servers() const { return static_cast<int>(servers_.size()); }
  const std::string& address() const { return address_; }
  server::ClientOptions client_options(int rank) const;

  // Ends a running worker; returns how many of its pushes were acknowledged.
  std::optional<int> stop(int rank);
  // The same for a killed worker, by its output.
  int acknowledged_by_killed(int rank);
  // The longest time from a push to its acknowledgement that a worker reported to stop().
  double longest_ms() const { return longest_ms_; }

  // How often the tables contain each worker's push: least and most over all elements and rows.
  // Fails the test and returns nothing if the tables cannot be read.
  struct Seen {
    int least = 1 << 30;
    int most = 0;
    bool whole = true;  // all elements of each part agree
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
