#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process/child.h"
#include "tally/error.h"

namespace tally::process {

// A folder of the test's own, removed at the end.
class Folder final {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A loopback port that nobody listens on and that the system gives to nobody who connects.
std::uint16_t unused_port();

// The error that a worker ended with.
struct Outcome {
  std::string code;
  Rank peer = kNoRank;
  std::int64_t at_ms = 0;
  std::string message;
};

struct CrewOptions {
  std::string transport = "shm";
  int size = 3;
  int timeout_s = 30;
  int join_timeout_s = 20;
};

// Of the secret that a crew's ranks have over tls.
inline constexpr int kSecretSeed = 7;

// The ranks of one job, as processes.
class Crew final {
 public:
  using Variables = std::map<std::string, std::string>;

  explicit Crew(const CrewOptions& options);

  // Starts a worker; `changes` to its environment come last. An empty value leaves the variable
  // out.
  Child& start(Rank rank, const std::vector<std::string>& words, const Variables& changes = {});
  // All ranks with the same words.
  void start_all(const std::vector<std::string>& words);

  // The child that start() gave, by order of starting.
  Child& operator[](int index) { return *children_[static_cast<std::size_t>(index)]; }
  int count() const { return static_cast<int>(children_.size()); }
  std::uint16_t port() const { return port_; }
  const std::string& temp_folder() const { return temp_folder_; }
  // The path of a file with the secret whose 32 bytes are all `seed`.
  std::string secret_file(int seed) const;

  // Whether every worker says a line that starts so.
  testing::AssertionResult all_say(const std::string& start);

 private:
  const CrewOptions options_;
  const Folder folder_;
  const std::string temp_folder_;
  const std::uint16_t port_;
  std::vector<std::unique_ptr<Child>> children_;
};

// Of a test by its transport.
inline std::string name_of(const testing::TestParamInfo<std::string>& transport) {
  return transport.param;
}

// The worker's outcome; a failed test and nothing if none comes.
std::optional<Outcome> outcome_of(Child& child, milliseconds wait = kPatience);

// Expects the worker to end with this error, and to exit in order. Returns when it noticed, in
// milliseconds of now_ms(); 0 if it did not.
std::int64_t expect_outcome(Child& child, const std::string& code, Rank peer,
                            const std::string& in_message = "");

}  // namespace tally::process
