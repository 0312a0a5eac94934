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

class JobConsole;

// Facts about one start of a job, for hooks.
struct JobStart {
  std::string job;
  int size = 1;
  std::uint32_t generation = 1;
  int restart = 0;
  Secret secret;
  std::string own_address;  // address of this machine for the hosts of the job
};

// A rank that counts as lost because of its silence, although its process may exist.
struct SilentRank {
  Rank rank = 0;
  Duration silence{};
};

// Callbacks of the launcher. Called on its thread; the console may be used from any thread.
struct LaunchHooks {
  // Called before the ranks of a start or restart are started; returns variables for all of them.
  std::function<Result<Variables>(const JobStart& start, JobConsole& console)> before_start;
  // Called when a rank has failed; `how` as in "was killed by signal 9 (SIGKILL)".
  std::function<void(Rank rank, const std::string& how)> rank_failed;
  // Returns the ranks of this start that were lost by silence so far, in order.
  std::function<std::vector<SilentRank>()> silent_ranks;
  // Called before the ranks are asked to stop.
  std::function<void()> stopping;
  // Called when all ranks of this start have ended. Other processes of the job should end now,
  // before the remaining descendants are killed.
  std::function<void()> ended;
  // The job is over and not started again: the console must not be used after this call.
  std::function<void()> job_over;
};

// How the ranks are watched while they run.
struct WatchOptions {
  bool enabled = true;
  Duration heartbeat = std::chrono::seconds(1);
  Duration lost_after{};  // zero: the third missed heartbeat
  Duration stall_warning = std::chrono::seconds(10);
};

struct LaunchOptions {
  std::vector<std::string> command;
  std::vector<HostRanks> places;
  std::string job;
  std::string speaker = "tally run";  // prefix of messages
  // Empty: hosts other than this one are reached by ssh, and this one directly.
  std::vector<std::string> remote_shell;
  std::string remote_tally;    // the program on other hosts; empty: the path of this one
  std::string folder;          // working directory of the ranks
  std::string master_address;  // empty: derived from the hosts
  std::string
      own_address;  // address of this machine for the hosts; empty: determined by the route to them
  Variables variables;  // for all ranks
  Binding binding = Binding::kAuto;
  std::string log_folder;  // empty: none
  bool quiet_ranks = false;
  bool prefixes = true;  // prefix lines of ranks with their numbers
  bool live = false;     // show lines that end with a carriage return at once, and do not keep them
  std::string agent_program;  // program with `host-agent` for this host; empty: this program
  bool verbose = false;
  int max_restarts = 0;
  // The other ranks go on when a rank fails, because they do not need it. The job succeeds if one
  // rank does.
  bool goes_on_without_failed = false;
  Duration timeout = Duration::max();  // of the whole job
  Duration grace = std::chrono::seconds(5);
  Duration start_timeout = std::chrono::seconds(30);  // for the hosts to answer
  Duration lease = std::chrono::seconds(30);          // longest silence between hosts
  WatchOptions watch;
  LaunchHooks hooks;

  int size() const { return places.back().first + places.back().count; }
  bool several_hosts() const { return places.size() > 1; }
};

// Every reform adds one to the generation; a restart leaves room for that.
inline constexpr std::uint32_t kGenerationsPerStart = 1000;

// Exit codes of the launcher that are not those of a rank.
inline constexpr int kTroubleExitCode = 125;
inline constexpr int kTimeoutExitCode = 124;
inline constexpr int kSignalExitBase = 128;

// Exit codes of a shell for a program that cannot be run.
inline constexpr int kNotRunnable = 126;
inline constexpr int kNotFound = 127;

}  // namespace tally::launch
