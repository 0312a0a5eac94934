#include "apps/tally/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/launch/agent.h"
#include "apps/tally/launch/hosts.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/overseer.h"
#include "base/file.h"
#include "base/units.h"
#include "group/local_access.h"
#include "process/server_processes.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally run -n 4 -- ./train --rate 0.1
  tally run -n 2 -- tally train lenet
  tally run --hosts a:2,b:2 -- ./train
  tally run --hostfile hosts.txt --log-dir logs --quiet-ranks -- ./train
  tally run --hosts a:8,b:8 --remote-shell "ssh -p 2222 -i key" --env DATA=/data -- ./train
  tally run -n 4 --max-restarts 3 --timeout 2h -- ./train
  tally run -n 4 --servers 2 -- ./train

A host file has one line for each host, "a", "a:2" or "a slots=2"; # begins a comment.

What each rank gets:
  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE   its number and how many there are, in all and on its host
  MASTER_ADDR, MASTER_PORT                         where rank 0 may listen for the others
  OMP_NUM_THREADS                                  usable cores of the host / its ranks, unless you set it
  TALLY_SECRET_FILE                                the job's secret, which only you can read; gone with the job
  TALLY_JOB, TALLY_GENERATION, TALLY_RESTART       name; generation (1, 1001, ...); restarts so far
  TALLY_COORDINATOR, TALLY_HEARTBEAT               where to report to, and how often
  TALLY_DIRECTORY                                  with --servers: HOST:PORT of the parameter servers' directory
  and on this host the whole environment, on others PATH, LD_LIBRARY_PATH, TALLY_*, OMP_* and what --env
  names, on top of what the remote shell gives. Its stdin is empty.

Hosts are reached by `ssh HOST PATH/tally host-agent`, without a password (ssh-agent or keys); this host is not reached
but started on directly. --remote-shell takes any other program that is called as PROGRAM HOST COMMAND..., for all hosts.
The program and tally must be on every host, under the same path or as --remote-tally says.

While it runs, `tally status` shows what each rank does, and `tally inspect trace` what it did. When some wait long for
others, a line here names whom they wait for.

When a rank fails, the others get SIGTERM, after the grace time SIGKILL. Ctrl-C once: they get SIGINT and the grace
time; twice: SIGKILL. However this program ends, by kill -9 too, nothing it started stays behind on any host.

Exit codes:
  0        every rank exited with 0
  1-255    that of the rank that failed first; 128+N if signal N killed it
  124      --timeout passed
  125      something else than a rank failed: a host, a file
  126,127  the program could not be run, was not found
  130      Ctrl-C (143 SIGTERM, 129 SIGHUP)
  2        wrong usage)";

struct Options {
  int ranks = 0;
  std::string hosts;
  std::string host_file;
  std::string remote_shell;
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

// "90", "90s", "5m", "2h", and what parse_duration() knows.
Result<Duration> seconds_in(const std::string& text) {
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  const bool minutes = text.size() > 1 && text.back() == 'm';
  const auto time = parse_duration(bare ? text + "s" : minutes ? text + "in" : text);
  if (time) return time;
  return Error{.code = ErrorCode::kInvalid,
               .message = fmt::format("'{}' is not a time such as 90, 90s, 5m or 2h", text)};
}

Result<std::vector<launch::Host>> hosts_of(const Options& options) {
  if (!options.hosts.empty()) return launch::parse_hosts(options.hosts);
  if (options.host_file.empty())
    return std::vector<launch::Host>{{.name = "localhost", .slots = options.ranks}};
  const auto text = file_contents(options.host_file);
  if (!text)
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("cannot read {}", options.host_file)};
  auto hosts = launch::parse_host_file(*text);
  if (!hosts) hosts.error().message = options.host_file + ": " + hosts.error().message;
  return hosts;
}

// NAME=VALUE, or NAME with the value that it has here.
Result<launch::Variables> variables_of(const Options& options) {
  launch::Variables variables;
  for (const std::string& text : options.variables) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const char* const own = std::getenv(name.c_str());
    if (name.empty())
      return Error{.code = ErrorCode::kInvalid,
                   .message = fmt::format("--env {}: a variable has a name", text)};
    if (equals == std::string::npos && own == nullptr)
      return Error{.code = ErrorCode::kInvalid,
                   .message = fmt::format("--env {}: there is no such variable here", text)};
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

Result<launch::LaunchOptions> launch_options(const Options& options) {
  launch::LaunchOptions launch = options.launch;
  launch.command = options.program;
  if (launch.command.empty() || launch.command.front().empty())
    return Error{
        .code = ErrorCode::kInvalid,
        .message = "no program to run: it stands after --, as in tally run -n 2 -- ./prog"};
  if (options.ranks == 0 && options.hosts.empty() && options.host_file.empty())
    return Error{.code = ErrorCode::kInvalid,
                 .message = "how many ranks? Give -n, --hosts or --hostfile"};
  TALLY_TRY(const std::vector<launch::Host> hosts, hosts_of(options));
  TALLY_TRY(launch.places, launch::place_ranks(hosts, options.ranks));
  TALLY_TRY(launch.variables, variables_of(options));
  std::istringstream words(options.remote_shell);
  launch.remote_shell = {std::istream_iterator<std::string>(words), {}};
  launch.binding = options.binding == "cores"  ? launch::Binding::kCores
                   : options.binding == "none" ? launch::Binding::kNone
                                               : launch::Binding::kAuto;
  if (!options.timeout.empty()) {
    TALLY_TRY(launch.timeout, seconds_in(options.timeout));
    if (launch.timeout == Duration::zero())
      return Error{.code = ErrorCode::kInvalid, .message = "--timeout 0 would end the job at once"};
  }
  TALLY_TRY(launch.grace, seconds_in(options.grace));
  TALLY_TRY(launch.lease, seconds_in(options.lease));
  TALLY_TRY(launch.start_timeout, seconds_in(options.start_timeout));
  if (launch.lease < std::chrono::seconds(1) || launch.lease > std::chrono::hours(24))
    return Error{.code = ErrorCode::kInvalid, .message = "--lease is from 1 second to 24 hours"};
  std::error_code failed;
  const std::string here = std::filesystem::current_path(failed).string();
  launch.folder =
      launch.folder.empty() ? here : (std::filesystem::path(here) / launch.folder).string();
  if (launch.job.empty()) launch.job = default_job_name(launch.command.front());
  if (!group::is_job_name(launch.job))
    return Error{.code = ErrorCode::kInvalid,
                 .message = "--job is 1 to 64 letters, digits, dots, underscores and dashes"};
  TALLY_TRY(launch.watch.heartbeat, seconds_in(options.heartbeat));
  TALLY_TRY(launch.watch.lost_after, seconds_in(options.lost_after));
  TALLY_TRY(launch.watch.stall_warning, seconds_in(options.stall_warning));
  if (std::min(launch.watch.heartbeat, launch.watch.stall_warning) < std::chrono::milliseconds(10))
    return Error{.code = ErrorCode::kInvalid,
                 .message = "--heartbeat and --stall-warning are at least 10ms"};
  launch.watch.enabled = !options.unwatched;
  return launch;
}

// Whether a sentence of the directory is worth a line among those of ranks.
bool is_news(const std::string& sentence) {
  const bool of_server =
      sentence.starts_with("server") && sentence.find(" joined") == std::string::npos;
  return of_server || sentence.starts_with("nobody");
}

// Parameter servers beside the ranks, started anew with them.
void add_servers(launch::LaunchOptions& launch, const Options& options,
                 std::unique_ptr<process::ServerProcesses>& running) {
  auto before = launch.hooks.before_start;
  launch.hooks.before_start = [before, &options, &running, verbose = launch.verbose](
                                  const launch::JobStart& start,
                                  launch::Console& console) -> Result<launch::Variables> {
    launch::Variables variables;
    if (before) {
      TALLY_TRY(variables, before(start, console));
    }
    running.reset();
    TALLY_TRY(running, process::ServerProcesses::start({.servers = options.servers,
                                                        .replicas = options.replicas,
                                                        .host = start.own_address,
                                                        .secret = start.secret},
                                                       [verbose](const std::string& sentence) {
                                                         if (verbose || is_news(sentence))
                                                           fmt::print(stderr, "tally run: {}\n",
                                                                      sentence);
                                                       }));
    variables.emplace_back("TALLY_DIRECTORY", running->directory());
    return variables;
  };
}

int run_watched(launch::LaunchOptions launch, const Options& options) {
  launch::Overseer overseer(launch.watch, launch.verbose);
  if (launch.watch.enabled) launch.hooks = overseer.hooks();
  std::unique_ptr<process::ServerProcesses> servers;
  if (options.servers > 0) add_servers(launch, options, servers);
  return launch::run_job(launch);
}

int run(const Options& options) {
  const auto launch = launch_options(options);
  if (launch) return run_watched(*launch, options);
  fmt::print(stderr, "tally run: {}\n", launch.error().message);
  return 2;
}

void add_where(CLI::App& command, Options& o) {
  command
      .add_option("-n,--ranks", o.ranks,
                  "Ranks to start; with hosts: not more than these have slots")
      ->check(CLI::Range(1, launch::kMaxRanks));
  auto* const hosts =
      command.add_option("--hosts", o.hosts, "Hosts and how many ranks each takes: a:2,b:2")
          ->type_name("LIST");
  command.add_option("--hostfile", o.host_file, "The same from a file, one host a line")
      ->type_name("FILE")
      ->excludes(hosts);
  command
      .add_option("--remote-shell", o.remote_shell,
                  "Reach all hosts by this program instead of ssh, this host too; words are "
                  "separated by spaces")
      ->type_name("PROGRAM");
  command
      .add_option("--remote-tally", o.launch.remote_tally,
                  "Where tally is on the hosts; default: where it is here")
      ->type_name("PATH");
  command
      .add_option(
          "--master-addr", o.launch.master_address,
          "Address of rank 0's host for the others; default: 127.0.0.1, or the first host as named")
      ->type_name("ADDRESS");
}

void add_own_address(CLI::App& command, Options& o) {
  command
      .add_option(
          "--launcher-addr", o.launch.own_address,
          "Address of this machine for the ranks on other hosts; default: that which packets "
          "to them leave from")
      ->type_name("ADDRESS");
}

void add_what(CLI::App& command, Options& o) {
  command
      .add_option(
          "--env", o.variables,
          "Variable for all ranks, with the value it has here if none is given; may be repeated")
      ->type_name("NAME[=VALUE]")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--workdir", o.launch.folder, "Working directory of the ranks; default: this one")
      ->type_name("DIR");
  command
      .add_option("--bind", o.binding,
                  "cores: each rank runs on cores of its own, within a NUMA node where possible; "
                  "none: anywhere; "
                  "auto: cores if there is one for each rank")
      ->check(CLI::IsMember({"auto", "cores", "none"}))
      ->capture_default_str();
  command
      .add_option("--servers", o.servers,
                  "Parameter servers to start on this host, as processes of their own; they end "
                  "with the job")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command
      .add_option(
          "--replicas", o.replicas,
          "Servers that have each part of a table; 0: two, or one where there is one server")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  command
      .add_option("--job,--tag", o.launch.job,
                  "Name of the job, for `tally status`; default: program and pid")
      ->type_name("NAME");
}

void add_output(CLI::App& command, Options& o) {
  command
      .add_option("--log-dir", o.launch.log_folder,
                  "Also write what rank N writes to DIR/rank-N.log, byte by byte")
      ->type_name("DIR");
  command.add_flag("--quiet-ranks", o.launch.quiet_ranks,
                   "Show rank 0 only, and the last 50 lines of a rank that failed");
  command.add_flag("--verbose", o.launch.verbose, "Say what is started where");
}

void add_end(CLI::App& command, Options& o) {
  command
      .add_option("--timeout", o.timeout,
                  "End the job after so long, restarts included: 90, 90s, 5m, 2h")
      ->type_name("TIME");
  command.add_option("--grace", o.grace, "Seconds between asking ranks to stop and killing them")
      ->type_name("TIME")
      ->capture_default_str();
  command
      .add_option("--max-restarts", o.launch.max_restarts,
                  "When a rank fails, end all and start the whole job again, so often at most")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command.add_option("--start-timeout", o.start_timeout, "Seconds for all hosts to answer")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_option("--lease", o.lease, "Seconds of silence after which hosts give each other up")
      ->type_name("TIME")
      ->capture_default_str();
}

void add_watch(CLI::App& command, Options& o) {
  command.add_option("--heartbeat", o.heartbeat, "Seconds between the ranks' reports")
      ->type_name("TIME")
      ->capture_default_str();
  command
      .add_option("--lost-after", o.lost_after,
                  "Silence after which a rank is lost; 0: with the third missed heartbeat. Give "
                  "more where links are cut and heal")
      ->type_name("TIME")
      ->capture_default_str();
  command
      .add_option("--stall-warning", o.stall_warning,
                  "When ranks have waited so long for others, say for whom and why")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_flag("--no-coordinator", o.unwatched,
                   "No heartbeats, no `tally status`: losses are noticed by connections alone");
}

}  // namespace

void add_run_command(CLI::App& parent, const std::vector<std::string>& program, int& exit_code) {
  CLI::App& command =
      *parent.add_subcommand("run",
                             "Start a program as the ranks of a job, here or on several hosts:\n"
                             "tally run [OPTIONS] -- PROGRAM [ARGUMENTS]");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  add_where(command, *o);
  add_own_address(command, *o);
  add_what(command, *o);
  add_output(command, *o);
  add_watch(command, *o);
  add_end(command, *o);
  command.callback([o, &program, &exit_code] {
    o->program = program;
    exit_code = run(*o);
  });

  CLI::App& agent = *parent.add_subcommand("host-agent");
  agent.group("");  // not listed in the help
  agent.callback([&exit_code] { exit_code = launch::run_agent(); });
}

}  // namespace tally::app
