#include "apps/tally/serve_command.h"

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/serve_servers.h"
#include "apps/tally/watch_target.h"
#include "group/coordinator.h"
#include "group/local_access.h"
#include "group/reporter.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Parameter servers. One process has directory and server; or a directory, and servers that join it:
  tally serve --listen 127.0.0.1:29500
  tally serve --directory --servers 2 --listen 10.0.0.1:29500 --secret-file job.secret
  tally serve --server --directory-at 10.0.0.1:29500 --listen 10.0.0.2:0 --secret-file job.secret \
      --memory-limit 4GiB --snapshots /data/snapshots
Workers find the directory by HOST:PORT. With two servers or more each part of a table is on two (--replicas), and a
server may die. Servers end when the directory does.

A coordinator watches over a job that others started:
  tally serve --coordinator --job digits --size 4
  tally serve --coordinator --job digits --size 8 --listen 10.0.0.1:29401 --secret-file job.secret \
      --state-file digits.state --stall-warning 30

A secret file is made by (umask 077; head -c 32 /dev/urandom > job.secret).
The ranks find the coordinator by TALLY_COORDINATOR=HOST:PORT, with the same secret in TALLY_SECRET_FILE. `tally run` has
one of its own. Started again with the same --listen and --state-file it gets its ranks back. Ends in order
on SIGTERM, SIGINT and SIGHUP; the ranks work on.

Exit codes: 0 it was asked to end; 1 it could not start; 2 wrong usage; 3 a server that the directory has given up.)";

constexpr int kWrongUsage = 2;

// Signals end poll(); one that comes just before it is seen this much later.
constexpr int kLookMilliseconds = 200;

struct Options {
  bool coordinator = false;
  std::string listen = "127.0.0.1:0";
  std::string secret_file;
  double heartbeat = 1;
  double lost_after = 0;
  double stall_warning = 10;
  group::CoordinatorOptions watch;
  ServeServers servers;
};

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

void say(const std::string& sentence) {
  fmt::print("{:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), sentence);
  std::fflush(stdout);
}

Result<std::unique_ptr<group::Coordinator>> start(const Options& options) {
  group::CoordinatorOptions watch = options.watch;
  const auto listen = group::address_from(options.listen);
  if (!listen.has_value())
    return Error{.code = ErrorCode::kInvalid, .message = "--listen " + listen.error().message};
  watch.listen = *listen;
  TALLY_TRY(watch.secret, secret_in(options.secret_file));
  watch.heartbeat = seconds(options.heartbeat);
  watch.lost_after = seconds(options.lost_after);
  watch.stall_warning = seconds(options.stall_warning);
  return group::Coordinator::start(
      watch, [](const group::CoordinatorEvent& event) { say(event.sentence); });
}

int coordinate(const Options& options) {
  const process::InterruptGuard guard;
  const auto coordinator = start(options);
  if (!coordinator.has_value()) {
    fmt::print(stderr, "tally serve: {}\n", coordinator.error().message);
    return coordinator.error().code == ErrorCode::kInvalid ? kWrongUsage : 1;
  }
  say(fmt::format("watching job {} of {} ranks at {}", (*coordinator)->local_name(),
                  options.watch.size, to_string((*coordinator)->address())));
  while (process::interrupted() == 0) poll(nullptr, 0, kLookMilliseconds);
  say("ends; the ranks work on");
  return 0;
}

// What a way of serving needs, and what belongs to another.
std::string complaint(const CLI::App& command, const Options& options) {
  const std::string way = options.coordinator         ? "--coordinator"
                          : options.servers.directory ? "--directory"
                          : options.servers.server    ? "--server"
                                                      : "";
  const auto wrong = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (command.count(name) > 0)
        return way.empty() ? fmt::format("{} is not for directory and server in one process", name)
                           : fmt::format("{} does not go with {}", name, way);
    return "";
  };
  if (options.coordinator) {
    if (command.count("--job") == 0) return "--coordinator needs --job NAME";
    if (command.count("--size") == 0) return "--coordinator needs --size N";
    return wrong({"--servers", "--replicas", "--directory-at", "--memory-limit", "--snapshots",
                  "--threads", "--silence-limit"});
  }
  const std::string other = wrong({"--job", "--size", "--generation", "--state-file", "--heartbeat",
                                   "--lost-after", "--stall-warning"});
  if (!other.empty()) return other;
  if (options.servers.directory)
    return wrong({"--directory-at", "--memory-limit", "--snapshots", "--threads"});
  if (options.servers.server) return wrong({"--servers", "--replicas", "--silence-limit"});
  if (command.count("--listen") == 0)
    return "serve what? Give --listen HOST:PORT, --directory, --server or --coordinator";
  return wrong({"--servers", "--replicas", "--directory-at"});
}

int run(const CLI::App& command, const Options& options) {
  const std::string wrong = complaint(command, options);
  if (!wrong.empty()) {
    fmt::print(stderr, "tally serve: {}\n", wrong);
    return kWrongUsage;
  }
  if (options.coordinator) return coordinate(options);
  ServeServers servers = options.servers;
  servers.listen = options.listen;
  servers.secret_file = options.secret_file;
  return serve_servers(servers);
}

void add_coordinator_options(CLI::App& command, Options& o) {
  group::CoordinatorOptions& watch = o.watch;
  command.add_option("--job", watch.job, "Coordinator: the job's name")
      ->type_name("NAME")
      ->check([](const std::string& name) -> std::string {
        if (group::is_job_name(name)) return "";
        return fmt::format("'{}' is not 1 to 64 letters, digits, dots, underscores and dashes",
                           name);
      });
  command.add_option("--size", watch.size, "Coordinator: how many ranks it has")
      ->check(CLI::Range(1, 4096));
  command.add_option("--generation", watch.generation, "Coordinator: its first one")
      ->capture_default_str();
  command
      .add_option("--state-file", watch.state_file,
                  "Coordinator: to go on from when it is started again")
      ->type_name("FILE");
  const CLI::Range time(0.01, 86400.0);
  command.add_option("--heartbeat", o.heartbeat, "Coordinator: seconds between the ranks' reports")
      ->check(time)
      ->capture_default_str();
  command
      .add_option("--lost-after", o.lost_after,
                  "Coordinator: seconds of silence after which a rank is lost; 0: with the third "
                  "missed heartbeat")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      .add_option("--stall-warning", o.stall_warning,
                  "Coordinator: seconds of waiting that are reported")
      ->check(time)
      ->capture_default_str();
}

void add_server_options(CLI::App& command, ServeServers& o) {
  command.add_option("--servers", o.servers, "Directory: how many begin; more may join later")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      .add_option(
          "--replicas", o.replicas,
          "Directory: servers that have each part; 0: two, or one where there is one server")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  command
      .add_option("--silence-limit", o.silence_limit,
                  "Directory: after so much silence a server or worker is given up")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_option("--directory-at", o.directory_at, "Server: where the directory is")
      ->type_name("HOST:PORT");
  command.add_option("--memory-limit", o.memory_limit, "Server: of all tables; 0: no limit")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--snapshots", o.snapshots, "Server: folder for snapshots")
      ->type_name("FOLDER");
  command.add_option("--threads", o.threads, "Server: 0: as many as there are cores, up to 4")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command.add_option("--join-timeout", o.join_timeout, "Server: how long the directory may take")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_option("--until-stdin-ends", o.until_stdin_ends)
      ->group("")
      ->check(CLI::IsMember({"plain", "secret"}));
}

}  // namespace

void add_serve_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand(
      "serve", "Be a parameter server or its directory, or watch over a job that others started");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  auto* const coordinator =
      command.add_flag("--coordinator", o->coordinator, "Be the coordinator of a job");
  auto* const directory = command.add_flag("--directory", o->servers.directory,
                                           "Be the directory that parameter servers join");
  command.add_flag("--server", o->servers.server, "Be a parameter server")
      ->excludes(directory)
      ->excludes(coordinator);
  directory->excludes(coordinator);
  command.add_option("--listen", o->listen, "Where; port 0: any that is free")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      .add_option("--secret-file", o->secret_file,
                  "With the job's secret: needed unless only this machine can reach it")
      ->type_name("FILE");
  add_server_options(command, o->servers);
  add_coordinator_options(command, *o);
  command.callback([o, &command, &exit_code] { exit_code = run(command, *o); });
}

}  // namespace tally::app
