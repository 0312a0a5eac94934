#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process/child.h"
#include "process/folder.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::process {

// A deadline for an operation that must succeed.
inline Deadline soon() { return Deadline::after(kPatience); }

// A loopback port without a listener, outside the range from which the system picks ports.
std::uint16_t unused_port();

// Waits until `count` connections to a listener on this port are established.
testing::AssertionResult await_connections(std::uint16_t port, int count);

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
  std::string timeout_s = kNever;
  std::string join_timeout_s = kNever;
};

// The seed of the secret that the ranks of a crew share over tls.
inline constexpr int kSecretSeed = 7;

// The ranks of one job, each a process.
class Crew final {
 public:
  using Variables = std::map<std::string, std::string>;

  explicit Crew(const CrewOptions& options);

  // Starts a worker. `changes` override its environment; an empty value removes the variable.
  Child& start(Rank rank, const std::vector<std::string>& words, const Variables& changes = {});
  // Starts all ranks with the same words.
  void start_all(const std::vector<std::string>& words);

  // The children in the order of their start.
  Child& operator[](int index) { return *children_[static_cast<std::size_t>(index)]; }
  int count() const { return static_cast<int>(children_.size()); }
  std::uint16_t port() const { return port_; }
  const std::string& temp_folder() const { return temp_folder_; }
  // A file with a secret of 32 bytes that are all `seed`.
  std::string secret_file(int seed) const;

  // Whether every worker prints a line that starts with `start`.
  testing::AssertionResult all_say(const std::string& start);

 private:
  const CrewOptions options_;
  const Folder folder_;
  const std::string temp_folder_;
  const std::uint16_t port_;
  std::vector<std::unique_ptr<Child>> children_;
};

// The name of a test whose parameter is a transport.
inline std::string name_of(const testing::TestParamInfo<std::string>& transport) {
  return transport.param;
}

// The worker's outcome; fails the test and returns nothing if the worker prints none.
std::optional<Outcome> outcome_of(Child& child);

// Expects the worker to report this error and to exit. Returns when the worker noticed the error,
// as now_ms() has it; 0 if it did not.
std::int64_t expect_outcome(Child& child, const std::string& code, Rank peer,
                            const std::string& in_message = "");

}  // namespace tally::process
