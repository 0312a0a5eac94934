#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/tally/launch/hosts.h"
#include "apps/tally/launch/messages.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::launch {

class Console;

// What one start of a job is, for those who prepare something for it.
struct JobStart {
  std::string job;
  int size = 1;
  std::uint32_t generation = 1;
  int restart = 0;
  Secret secret;
  std::string own_address;  // of this machine, as the hosts of the job can reach it
};

// A rank that has not been heard of for so long that it counts as lost, whatever its process does.
struct SilentRank {
  Rank rank = 0;
  Duration silence{};
};

// What accompanies a job inside the launcher. Called on its thread; the console may be used from
// any.
struct LaunchHooks {
  // Before the ranks of a start or restart are started; gives variables for all of them.
  std::function<Result<Variables>(const JobStart& start, Console& console)> before_start;
  // As soon as it is known; `how` as in "was killed by signal 9 (SIGKILL)".
  std::function<void(Rank rank, const std::string& how)> rank_failed;
  // Those of this start that were lost by silence so far, in order.
  std::function<std::vector<SilentRank>()> silent_ranks;
  // The ranks are about to be asked to stop.
  std::function<void()> stopping;
  // All ranks of this start have ended; what else was started for them is to end before whoever is
  // left is killed.
  std::function<void()> ended;
  // The job is over and not started again: the console must not be used after this call.
  std::function<void()> job_over;
};

// How the ranks are watched while they run.
struct WatchOptions {
  bool enabled = true;
  Duration heartbeat = std::chrono::seconds(1);
  Duration lost_after{};  // zero: with the third missed heartbeat
  Duration stall_warning = std::chrono::seconds(10);
};

struct LaunchOptions {
  std::vector<std::string> command;
  std::vector<HostRanks> places;
  std::string job;
  std::string speaker = "tally run";  // whose messages these are
  // Empty: hosts other than this one are reached by ssh, and this one directly.
  std::vector<std::string> remote_shell;
  std::string remote_tally;    // the program on other hosts; empty: where it is here
  std::string folder;          // working directory of the ranks
  std::string master_address;  // empty: by the hosts
  std::string own_address;     // of this machine for the hosts; empty: as they are reached
  Variables variables;         // for all ranks
  Binding binding = Binding::kAuto;
  std::string log_folder;  // empty: none
  bool quiet_ranks = false;
  bool prefixes = true;  // before the lines of ranks
  bool live =
      false;  // lines that ranks end with a carriage return are shown at once, and kept by nobody
  std::string agent_program;  // that has `host-agent` and starts the ranks here; empty: our own
  bool verbose = false;
  int max_restarts = 0;
  // A rank that fails is told of and the others go on: what they do does not need it. The job is
  // good if one of them is.
  bool goes_on_without_failed = false;
  Duration timeout = Duration::max();  // of the whole job
  Duration grace = std::chrono::seconds(5);
  Duration start_timeout = std::chrono::seconds(30);  // for the hosts to answer
  Duration lease = std::chrono::seconds(30);          // without a word between hosts
  WatchOptions watch;
  LaunchHooks hooks;

  int size() const { return places.back().first + places.back().count; }
  bool several_hosts() const { return places.size() > 1; }
};

// A generation is counted up with every reform; a restart leaves room for that.
inline constexpr std::uint32_t kGenerationsPerStart = 1000;

// Exit codes of the launcher that are no rank's.
inline constexpr int kTroubleExitCode = 125;
inline constexpr int kTimeoutExitCode = 124;
inline constexpr int kSignalExitBase = 128;

}  // namespace tally::launch
