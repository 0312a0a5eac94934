#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/tally/launch/hosts.h"
#include "apps/tally/launch/messages.h"
#include "process/server_processes.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::launch {

// Facts about one start of a job.
struct JobStart {
  std::uint32_t generation = 1;
  int restart = 0;
  std::string run;  // the same after each restart, and different for each job
  Secret secret;
  std::string own_address = {};  // address of this machine for the hosts of the job
};

// How the ranks are watched while they run.
struct WatchOptions {
  bool enabled = true;
  Duration heartbeat = std::chrono::seconds(1);
  Duration lost_after{};  // as in group::CoordinatorOptions
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
  bool prefixes = true;       // prefix lines of ranks with their numbers
  std::string agent_program;  // program with `host-agent` for this host; empty: this program
  bool verbose = false;
  int max_restarts = 0;
  // All ranks join the job: while some have not, lines say how many have.
  bool counts_joined = false;
  // Exit code of a rank that ended only because it lost another one or a server; 0: there is none.
  int lost_peer_code = 0;
  // Exit code of a rank after which a restart would end the same way; 0: there is none.
  int final_code = 0;
  // The other ranks go on when a rank fails, because they do not need it. The job succeeds if one
  // rank does.
  bool goes_on_without_failed = false;
  Duration timeout = Duration::max();  // of the whole job
  Duration grace = std::chrono::seconds(5);
  Duration start_timeout = std::chrono::seconds(30);  // for the hosts to answer
  Duration lease = std::chrono::seconds(30);          // longest silence between hosts
  WatchOptions watch;
  // Parameter servers on this machine that start before the ranks, with the secret of the job, and
  // end after them. The ranks find their directory by TALLY_DIRECTORY.
  std::optional<process::ServerProcessesOptions> servers;
  // Selects the events of the servers that are shown to the user.
  std::function<bool(const std::string& event)> is_news;

  int size() const { return places.back().first + places.back().count; }
  bool several_hosts() const { return places.size() > 1; }
};

// Every reform adds one to the generation; a restart leaves room for that.
inline constexpr std::uint32_t kGenerationsPerStart = 1000;

// Exit codes of the launcher that are not those of a rank.
inline constexpr int kTroubleExitCode = 125;
inline constexpr int kTimeoutExitCode = 124;
inline constexpr int kSignalExitBase = 128;

// Exit code of a worker that ended only because it lost another one or a server; the launcher
// reports 1.
inline constexpr int kLostPeerExitCode = 76;

// Exit codes of a shell for a program that cannot be run.
inline constexpr int kNotRunnable = 126;
inline constexpr int kNotFound = 127;

// `tally host-agent`: starts the ranks of one host for a launcher, which it hears on stdin and
// answers on stdout. It forwards the output of the ranks and reports how they end. When stdin ends,
// or the launcher is silent for longer than the lease, it kills everything that it or its ranks
// started, and ends. Returns the exit code.
int run_agent();

// Runs a job to its end, restarts included, and reports failures on stderr. Returns the exit code
// of `tally run`: 0; the code of the rank that failed first, or 128 plus its signal;
// kTimeoutExitCode; kTroubleExitCode; 128 plus the signal that interrupted the launcher. Handles
// the signals of the process meanwhile. Called on the main thread.
int run_job(const LaunchOptions& options);

// For commands that start their own workers on this host, as `tally train RECIPE` does: the options
// of a job of `workers` ranks. Without `quiet` on a terminal, --live is added to the command.
LaunchOptions worker_job(const std::string& recipe, std::vector<std::string> command, int workers,
                         bool quiet);

// Parses "90", "90s", "5m", "2h", and the formats of parse_duration().
Result<Duration> parse_time(const std::string& text);

// The limit of the directory of a job with `--lost-after`: 5 seconds at least, or none if there is
// no such option (server::DirectoryOptions::silence_limit).
std::chrono::milliseconds silence_limit_of(Duration lost_after);

// Whether a launcher has started this process as a rank.
Result<bool> is_rank();
// Whether `tally run` or a command that starts its own workers has started this rank again.
bool is_restart();
// The name of this run of a job, by the same launchers: it stays after a restart, and no other job
// has it. Empty without such a launcher.
std::string run_name();

}  // namespace tally::launch
