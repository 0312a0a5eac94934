#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process/crew.h"

namespace tally::process {

// Times of the coordinator. By default only a connection that ends makes a rank lost, however busy
// the machine is.
struct WatchOptions {
  CrewOptions crew;
  milliseconds heartbeat = scaled(milliseconds(200));
  milliseconds lost_after = seconds(kNeverSeconds);
  milliseconds stall_warning = seconds(kNeverSeconds);
};

// A crew and the coordinator that watches it, a `tally serve` that the test starts.
class WatchedCrew final {
 public:
  explicit WatchedCrew(const WatchOptions& options);

  Crew& crew() { return crew_; }
  Child& operator[](int index) { return crew_[index]; }
  Child& coordinator() { return *coordinator_; }
  std::uint16_t port() const { return port_; }
  const std::string& job() const { return job_; }
  const std::string& state_file() const { return state_file_; }

  // Starts the coordinator, or starts it again with the same address and state file.
  void start_coordinator();
  // Variables by which a rank finds the coordinator.
  std::map<std::string, std::string> variables() const;
  Child& start(Rank rank, const std::vector<std::string>& words);
  // Starts all ranks and waits until the coordinator knows them.
  testing::AssertionResult start_all(const std::vector<std::string>& words);

  // The output of `tally` with these arguments; fails the test if its exit code is not 0.
  std::string tally(const std::vector<std::string>& words);
  // Whether the output of `tally status --json` comes to contain `part`.
  testing::AssertionResult status_has(const std::string& part);
  // The output of a `tally` with these arguments, once it contains all `parts`. Commands that wait
  // for answers of ranks leave out a rank which answers late.
  std::string tally_until(const std::vector<std::string>& words,
                          const std::vector<std::string>& parts);
  // Whether the coordinator prints a line that contains `part`.
  testing::AssertionResult says(const std::string& part);

 private:
  const WatchOptions options_;
  Crew crew_;
  const std::uint16_t port_;
  const std::string job_;
  const std::string state_file_;
  std::unique_ptr<Child> coordinator_;
};

}  // namespace tally::process
