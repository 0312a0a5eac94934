#include "apps/tally/launch/worker_job.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "apps/tally/launch/job_console.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/rank_watch.h"

namespace tally::launch {
namespace {

// Time to finish the current step, write a checkpoint or vectors, and leave.
constexpr auto kWorkerGrace = std::chrono::seconds(30);

struct RunningServers {
  std::atomic<bool> ending{false};
  std::unique_ptr<process::ServerProcesses> processes;
};

}  // namespace

Result<bool> is_rank() {
  TALLY_TRY(const JobOptions job,
            options_from([](const char* name) -> const char* { return std::getenv(name); }));
  return job.launcher != "none" || std::getenv("RANK") != nullptr;
}

int terminal_columns() {
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  if (dumb || ::isatty(STDOUT_FILENO) != 1) return 0;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void add_servers(LaunchHooks& hooks, const process::ServerProcessesOptions& servers,
                 const IsNews& is_news) {
  const auto running = std::make_shared<RunningServers>();
  hooks.before_start = [running, servers, is_news, before = hooks.before_start](
                           const JobStart& start, JobConsole& console) -> Result<Variables> {
    Variables variables;
    if (before) {
      TALLY_TRY(variables, before(start, console));
    }
    running->processes.reset();
    running->ending = false;
    process::ServerProcessesOptions options = servers;
    options.host = start.own_address;
    options.secret = start.secret;
    TALLY_TRY(running->processes,
              process::ServerProcesses::start(options, [&ending = running->ending, is_news,
                                                        &console](const std::string& event) {
                if (!ending && is_news(event)) console.say(event);
              }));
    variables.emplace_back("TALLY_DIRECTORY", running->processes->directory());
    return variables;
  };
  hooks.ended = [running] {
    running->ending = true;
    running->processes.reset();
  };
}

int run_workers(const WorkerJob& job) {
  const int columns = job.quiet ? 0 : terminal_columns();
  std::error_code failed;
  LaunchOptions launch{.command = job.command,
                       .places = {{.host = "localhost", .first = 0, .count = job.workers}},
                       .job = fmt::format("train-{}-{}", job.recipe, ::getpid()),
                       .speaker = "tally train",
                       .folder = std::filesystem::current_path(failed).string(),
                       .variables = job.variables,
                       .prefixes = false,
                       .live = columns > 0,
                       .agent_program = job.agent_program,
                       .goes_on_without_failed = job.goes_on_without_failed,
                       .grace = kWorkerGrace};
  if (columns > 0) launch.command.push_back(fmt::format("--live={}", columns));
  RankWatch watch(launch.watch, /*verbose=*/false);
  launch.hooks = watch.hooks();
  if (job.servers) add_servers(launch.hooks, *job.servers, job.is_news);
  return run_job(launch);
}

}  // namespace tally::launch
