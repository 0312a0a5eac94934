#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process/crew.h"

namespace tally::process {

struct WatchOptions {
  CrewOptions crew;
  double heartbeat_s = 0.2;
  double lost_after_s = 0;
  double stall_warning_s = 60;
};

// A crew and the coordinator that watches it: a `tally serve` of its own.
class WatchedCrew final {
 public:
  explicit WatchedCrew(const WatchOptions& options);

  Crew& crew() { return crew_; }
  Child& operator[](int index) { return crew_[index]; }
  Child& coordinator() { return *coordinator_; }
  std::uint16_t port() const { return port_; }
  const std::string& job() const { return job_; }
  const std::string& state_file() const { return state_file_; }

  // Starts it, again if it was there before: same address, same state file.
  void start_coordinator();
  // By which a rank finds the coordinator.
  std::map<std::string, std::string> variables() const;
  Child& start(Rank rank, const std::vector<std::string>& words);
  // All of them, and all are known to the coordinator.
  testing::AssertionResult start_all(const std::vector<std::string>& words);

  // What a `tally` with these arguments prints; a failed test if it does not end well.
  std::string tally(const std::vector<std::string>& words);
  // Whether `tally status --json` has `part` within a while.
  testing::AssertionResult status_has(const std::string& part, milliseconds wait = kPatience);
  // Whether the coordinator says a line with `part`.
  testing::AssertionResult says(const std::string& part, milliseconds wait = kPatience);

 private:
  const WatchOptions options_;
  Crew crew_;
  const std::uint16_t port_;
  const std::string job_;
  const std::string state_file_;
  std::unique_ptr<Child> coordinator_;
};

}  // namespace tally::process
