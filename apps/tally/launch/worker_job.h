#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/tally/launch/launch_options.h"
#include "process/server_processes.h"

// For commands that start their own workers on this host, as `tally train` does.
namespace tally::launch {

// Whether a launcher has started this process as a rank.
Result<bool> is_rank();

// Columns of the terminal that is stdout; 0 if stdout is none.
int terminal_columns();

// Selects the events of servers that are shown to the user.
using IsNews = std::function<bool(const std::string& event)>;

// Starts parameter servers before the ranks, with the secret of the job, and ends them after the
// ranks. The ranks find their directory by TALLY_DIRECTORY.
void add_servers(LaunchHooks& hooks, const process::ServerProcessesOptions& servers,
                 const IsNews& is_news);

struct WorkerJob {
  std::string recipe;
  std::vector<std::string> command;  // of each worker; --live is added
  int workers = 1;
  bool quiet = false;  // no line of progress
  Variables variables = {};
  std::string agent_program = {};  // as LaunchOptions
  bool goes_on_without_failed = false;
  std::optional<process::ServerProcessesOptions> servers = {};
  IsNews is_news = {};  // of the servers
};

// Runs the job to its end: the exit code.
int run_workers(const WorkerJob& job);

}  // namespace tally::launch
