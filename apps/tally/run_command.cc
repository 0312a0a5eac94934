#include "apps/tally/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "apps/tally/host_options.h"
#include "apps/tally/launch/hosts.h"
#include "apps/tally/launch/launcher.h"
#include "base/errors.h"
#include "group/local_access.h"

namespace tally::app {
namespace {

constexpr const char* kRunFooter = R"(
Examples:
  tally run -n 4 -- ./train --rate 0.1
  tally run -n 2 -- tally train lenet
  tally run --hosts a:2,b:2 -- ./train
  tally run --hostfile hosts.txt --log-dir logs --quiet-ranks -- ./train
  tally run --hosts a:8,b:8 --remote-shell "ssh -p 2222 -i key" --env DATA=/data -- ./train
  tally run -n 4 --max-restarts 3 --timeout 2h -- ./train
  tally run -n 4 --servers 2 -- ./train

A host file has one line for each host, "a", "a:2" or "a slots=2"; # begins a comment.

Environment of each rank:
  RANK, WORLD_SIZE              number of the rank, and number of ranks
  LOCAL_RANK, LOCAL_WORLD_SIZE  the same on its host
  MASTER_ADDR, MASTER_PORT      address at which rank 0 may listen for the others
  OMP_NUM_THREADS               usable cores of the host / its ranks, unless you set it
  GOMP_SPINCOUNT                1000, unless you set it or OMP_WAIT_POLICY: idle threads sleep soon
  TALLY_SECRET_FILE             secret of the job, readable by you only; removed with the job
  TALLY_JOB, TALLY_GENERATION   name; generation (1, 1001, ...)
  TALLY_RESTART                 restarts so far
  TALLY_RUN                     name of this run: the same after a restart, new for each job
  TALLY_COORDINATOR             address of the coordinator
  TALLY_HEARTBEAT               seconds between reports to it
  TALLY_DIRECTORY               with --servers: HOST:PORT of the parameter servers' directory
Ranks on this host get the whole environment; ranks on other hosts get PATH, LD_LIBRARY_PATH,
TALLY_*, OMP_* and the variables of --env, in addition to those of the remote shell. Their stdin is
empty.

Other hosts are reached by `ssh HOST PATH/tally host-agent` without a password (ssh-agent or keys);
on this host the ranks are started directly. --remote-shell names another program, which is called
as PROGRAM HOST COMMAND..., for all hosts. The program and tally must be on every host, under the
same path or that of --remote-tally.

While the job runs, `tally status` shows the state of each rank, and `tally inspect trace` its last
operations. When ranks wait long for others, a line names the ranks they wait for.

When a rank fails, the others get SIGTERM, and SIGKILL after the grace time. After one Ctrl-C they
get SIGINT and the grace time, after a second one SIGKILL. When this program ends in any way, kill
-9 included, all processes that it started end on all hosts.

Exit codes:
  0        every rank exited with 0
  1-255    exit code of the rank that failed first; 128+N if signal N killed it
  124      --timeout passed
  125      a failure that is not a rank's: a host, a file
  126,127  the program could not be run, or was not found
  130      Ctrl-C (143 SIGTERM, 129 SIGHUP)
  2        wrong usage)";

struct RunOptions {
  int ranks = 0;
  HostOptions hosts;
  std::vector<std::string> variables;
  std::string binding = "auto";
  std::string timeout;
  std::string grace = "5";
  std::string lease = "30";
  std::string start_timeout = "30";
  std::string heartbeat = "1";
  std::string lost_after = "0";
  std::string stall_warning = "10";
  bool unwatched = false;
  int servers = 0;
  int replicas = 0;
  std::vector<std::string> program;
  launch::LaunchOptions launch;
};

// Parses NAME=VALUE, or NAME, which has the value of this environment.
Result<launch::Variables> variables_of(const RunOptions& options) {
  launch::Variables variables;
  for (const std::string& text : options.variables) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const char* const own = std::getenv(name.c_str());
    if (name.empty()) return invalid("--env {}: need a name before =", text);
    if (equals == std::string::npos && own == nullptr)
      return invalid("--env {}: this environment has no such variable", text);
    variables.emplace_back(name, equals == std::string::npos ? own : text.substr(equals + 1));
  }
  return variables;
}

std::string default_job_name(const std::string& program) {
  constexpr std::size_t kMost = 40;
  std::string name = std::filesystem::path(program).filename().string().substr(0, kMost);
  for (char& letter : name)
    if (!group::is_job_name(std::string(1, letter))) letter = '_';
  return fmt::format("{}-{}", name, ::getpid());
}

// Whether an event of the servers is shown among the lines of the ranks. The launcher reports the
// workers that end; those that are given up alive are reported here.
bool is_news(const std::string& event) {
  const bool of_server = event.starts_with("server") && event.find(" joined") == std::string::npos;
  const bool was_silent = event.find("it was silent") != std::string::npos;
  return of_server || was_silent || event.starts_with("nobody");
}

Result<launch::LaunchOptions> launch_options(const RunOptions& options) {
  launch::LaunchOptions launch = options.launch;
  launch.command = options.program;
  if (launch.command.empty() || launch.command.front().empty())
    return invalid("no program to run: it stands after --, as in tally run -n 2 -- ./prog");
  if (options.ranks == 0 && !options.hosts.given())
    return invalid("how many ranks? Give -n, --hosts or --hostfile");
  TALLY_TRY(set_hosts(options.hosts, options.ranks, launch));
  TALLY_TRY(launch.variables, variables_of(options));
  launch.binding = options.binding == "cores"  ? launch::Binding::kCores
                   : options.binding == "none" ? launch::Binding::kNone
                                               : launch::Binding::kAuto;
  if (!options.timeout.empty()) {
    TALLY_TRY(launch.timeout, launch::parse_time(options.timeout));
    if (launch.timeout == Duration::zero()) return invalid("--timeout 0: need more than 0");
  }
  TALLY_TRY(launch.grace, launch::parse_time(options.grace));
  TALLY_TRY(launch.lease, launch::parse_time(options.lease));
  TALLY_TRY(launch.start_timeout, launch::parse_time(options.start_timeout));
  if (launch.lease < std::chrono::seconds(1) || launch.lease > std::chrono::hours(24))
    return invalid("--lease: need 1 second to 24 hours");
  std::error_code failed;
  const std::string here = std::filesystem::current_path(failed).string();
  launch.folder =
      launch.folder.empty() ? here : (std::filesystem::path(here) / launch.folder).string();
  if (launch.job.empty()) launch.job = default_job_name(launch.command.front());
  if (!group::is_job_name(launch.job))
    return invalid("--job: need 1 to 64 letters, digits, dots, underscores and dashes");
  TALLY_TRY(launch.watch.heartbeat, launch::parse_time(options.heartbeat));
  TALLY_TRY(launch.watch.lost_after, launch::parse_time(options.lost_after));
  TALLY_TRY(launch.watch.stall_warning, launch::parse_time(options.stall_warning));
  if (std::min(launch.watch.heartbeat, launch.watch.stall_warning) < std::chrono::milliseconds(10))
    return invalid("--heartbeat and --stall-warning: need at least 10ms");
  launch.watch.enabled = !options.unwatched;
  if (options.servers > 0)
    launch.servers = {.servers = options.servers, .replicas = options.replicas};
  launch.is_news = [verbose = launch.verbose](const std::string& event) {
    return verbose || is_news(event);
  };
  return launch;
}

int run_launch(const RunOptions& options) {
  const auto launch = launch_options(options);
  return launch ? launch::run_job(*launch) : fail("tally run", launch.error(), kWrongUsage);
}

void add_hosts(Command& command, RunOptions& o) {
  command.add("-n,--ranks", &o.ranks, "Ranks to start; with hosts: at most as many as their slots",
              {.least = 1, .most = launch::kMaxRanks});
  add_host_options(command, o.hosts);
}

void add_job(Command& command, RunOptions& o) {
  command.add(
      "--env", &o.variables,
      "Variable for all ranks; without a value it has the value of this environment; may be "
      "repeated",
      {.value = "NAME[=VALUE]", .repeated = true});
  command.add("--workdir", &o.launch.folder, "Working directory of the ranks; default: this one",
              {.value = "DIR"});
  command.add("--bind", &o.binding,
              "cores: each rank has cores of its own, within a NUMA node where possible; none: any "
              "core; auto: cores if there is one for each rank",
              {.choices = {"auto", "cores", "none"}});
  command.add("--servers", &o.servers,
              "Parameter servers to start on this host as processes; they end with the job",
              {.least = 0, .most = 256});
  command.add("--replicas", &o.replicas,
              "Servers that hold each part of a table; 0: two, or one if there is one server",
              {.least = 0, .most = 16});
  command.add("--job,--tag", &o.launch.job,
              "Name of the job, for `tally status`; default: program and pid", {.value = "NAME"});
}

void add_output(Command& command, RunOptions& o) {
  command.add("--log-dir", &o.launch.log_folder,
              "Also write the output of rank N to DIR/rank-N.log, byte by byte", {.value = "DIR"});
  command.add("--quiet-ranks", &o.launch.quiet_ranks,
              "Show rank 0 only, and the last 50 lines of a rank that failed");
  command.add("--verbose", &o.launch.verbose, "Report the programs that are started on each host");
}

void add_limits(Command& command, RunOptions& o) {
  command.add("--heartbeat", &o.heartbeat, "Time between the reports of a rank", {.value = "TIME"});
  command.add("--lost-after", &o.lost_after,
              "Silence after which a rank is lost; 0: the third missed heartbeat, and on this host "
              "never while its process lives. The directory of --servers waits as long for workers "
              "and servers, but at least 5 s. Use more where links are cut and heal",
              {.value = "TIME"});
  command.add("--stall-warning", &o.stall_warning,
              "When ranks have waited this long for others, report the ranks they wait for and why",
              {.value = "TIME"});
  command.add("--no-coordinator", &o.unwatched,
              "No heartbeats and no `tally status`: only connections show that a rank is lost");
  command.add("--timeout", &o.timeout,
              "End the job after this time, restarts included: 90, 90s, 5m, 2h", {.value = "TIME"});
  command.add("--grace", &o.grace, "Time between asking ranks to stop and killing them",
              {.value = "TIME"});
  command.add(
      "--max-restarts", &o.launch.max_restarts,
      "When a rank fails, end all ranks and start the whole job again, at most N times; `tally "
      "train --checkpoint` then goes on from its newest checkpoint",
      {.least = 0, .most = 1000000});
  command.add("--start-timeout", &o.start_timeout, "Time for all hosts to answer",
              {.value = "TIME"});
  command.add("--lease", &o.lease, "Silence after which hosts give each other up",
              {.value = "TIME"});
}

}  // namespace

void add_run_command(Command top, const std::vector<std::string>& program) {
  Command command =
      top.add_command("run",
                      "Start a program as the ranks of a job, here or on several hosts:\n"
                      "tally run [OPTIONS] -- PROGRAM [ARGUMENTS]");
  command.footer(kRunFooter);
  const auto o = std::make_shared<RunOptions>();
  add_hosts(command, *o);
  add_job(command, *o);
  add_output(command, *o);
  add_limits(command, *o);
  command.action([o, &program] {
    o->program = program;
    return run_launch(*o);
  });
  top.add_hidden_command("host-agent").action([] { return launch::run_agent(); });
}

}  // namespace tally::app
