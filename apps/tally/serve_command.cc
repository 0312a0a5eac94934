#include "apps/tally/commands.h"

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "apps/tally/serve_servers.h"
#include "apps/tally/watch_target.h"
#include "group/coordinator.h"
#include "group/local_access.h"
#include "group/reporter.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr const char* kServeFooter = R"(
Parameter servers: a directory and a server in one process; or a directory, and servers that join
it:
  tally serve --listen 127.0.0.1:29500
  tally serve --directory --servers 2 --listen 10.0.0.1:29500 --secret-file job.secret
  tally serve --server --directory-at 10.0.0.1:29500 --listen 10.0.0.2:0 --secret-file job.secret \
      --memory-limit 4GiB --snapshots /data/snapshots
Workers find the directory by HOST:PORT. With two or more servers each part of a table is on two
servers (--replicas), so that one may fail. Servers end when the directory does.

A coordinator for a job that another launcher started:
  tally serve --coordinator --job digits --size 4
  tally serve --coordinator --job digits --size 8 --listen 10.0.0.1:29401 --secret-file job.secret \
      --state-file digits.state --stall-warning 30

This command makes a secret file: (umask 077; head -c 32 /dev/urandom > job.secret).
The ranks find the coordinator by TALLY_COORDINATOR=HOST:PORT, with the same secret in
TALLY_SECRET_FILE. `tally run` has a coordinator of its own. A coordinator that is restarted with
the same --listen and --state-file finds its ranks again. SIGTERM, SIGINT and SIGHUP end the
command; the ranks continue.

Exit codes: 0 ended by a signal; 1 it could not start; 2 wrong usage; 3 the directory gave the
server up.)";

constexpr double kMostSeconds = 86400;

struct ServeOptions {
  bool coordinator = false;
  std::string listen = "127.0.0.1:0";
  std::string secret_file;
  double heartbeat = 1;
  double lost_after = 0;
  double stall_warning = 10;
  group::CoordinatorOptions watch;
  ServeServers servers;
};

Duration duration_of(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

Result<std::unique_ptr<group::Coordinator>> start_coordinator(const ServeOptions& options) {
  group::CoordinatorOptions watch = options.watch;
  const auto listen = group::address_from(options.listen);
  if (!listen.has_value())
    return Error{.code = ErrorCode::kInvalid, .message = "--listen " + listen.error().message};
  watch.listen = *listen;
  TALLY_TRY(watch.secret, secret_in(options.secret_file));
  watch.heartbeat = duration_of(options.heartbeat);
  watch.lost_after = duration_of(options.lost_after);
  watch.stall_warning = duration_of(options.stall_warning);
  return group::Coordinator::start(
      watch, [](const group::CoordinatorEvent& event) { say(event.sentence); });
}

int coordinate(const ServeOptions& options) {
  const process::InterruptGuard guard;
  const auto coordinator = start_coordinator(options);
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

// Returns which option is missing or does not belong to the selected mode; empty: all are right.
std::string complaint(const Command& command, const ServeOptions& options) {
  const std::string way = options.coordinator         ? "--coordinator"
                          : options.servers.directory ? "--directory"
                          : options.servers.server    ? "--server"
                                                      : "";
  const auto wrong = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (command.given(name))
        return way.empty() ? fmt::format("{} is not for directory and server in one process", name)
                           : fmt::format("{} does not go with {}", name, way);
    return "";
  };
  if (options.coordinator) {
    if (!command.given("--job")) return "--coordinator needs --job NAME";
    if (!command.given("--size")) return "--coordinator needs --size N";
    return wrong({"--servers", "--replicas", "--directory-at", "--memory-limit", "--snapshots",
                  "--threads", "--silence-limit"});
  }
  const std::string other = wrong({"--job", "--size", "--generation", "--state-file", "--heartbeat",
                                   "--lost-after", "--stall-warning"});
  if (!other.empty()) return other;
  if (options.servers.directory)
    return wrong({"--directory-at", "--memory-limit", "--snapshots", "--threads"});
  if (options.servers.server) return wrong({"--servers", "--replicas", "--silence-limit"});
  if (!command.given("--listen"))
    return "nothing to serve: give --listen HOST:PORT, --directory, --server or --coordinator";
  return wrong({"--servers", "--replicas", "--directory-at"});
}

int run_serve(const Command& command, const ServeOptions& options) {
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

void add_coordinator_options(Command& command, ServeOptions& o) {
  group::CoordinatorOptions& watch = o.watch;
  const auto is_name = [](const std::string& name) -> std::string {
    return group::is_job_name(name) ? ""
                                    : "need 1 to 64 letters, digits, dots, underscores, dashes";
  };
  command.add("--job", &watch.job, "Coordinator: name of the job",
              {.value = "NAME", .check = is_name});
  command.add("--size", &watch.size, "Coordinator: ranks of the job", {.least = 1, .most = 4096});
  command.add("--generation", &watch.generation, "Coordinator: first generation");
  command.add("--state-file", &watch.state_file,
              "Coordinator: state for a coordinator that is started again", {.value = "FILE"});
  command.add("--heartbeat", &o.heartbeat, "Coordinator: seconds between the reports of a rank",
              {.least = 0.01, .most = kMostSeconds});
  command.add("--lost-after", &o.lost_after,
              "Coordinator: seconds of silence after which a rank is lost; 0: the third missed "
              "heartbeat",
              {.least = 0, .most = kMostSeconds});
  command.add("--stall-warning", &o.stall_warning,
              "Coordinator: seconds of waiting that are reported",
              {.least = 0.01, .most = kMostSeconds});
}

void add_server_options(Command& command, ServeServers& o) {
  command.add("--servers", &o.servers, "Directory: servers at the start; more may join later",
              {.least = 1, .most = 4096});
  command.add("--replicas", &o.replicas,
              "Directory: servers that hold each part; 0: two, or one if there is one server",
              {.least = 0, .most = 16});
  command.add("--silence-limit", &o.silence_limit,
              "Directory: silence after which a server or worker is given up", {.value = "TIME"});
  command.add("--directory-at", &o.directory_at, "Server: address of the directory",
              {.value = "HOST:PORT"});
  command.add("--memory-limit", &o.memory_limit, "Server: limit of all tables; 0: no limit",
              {.value = "SIZE"});
  command.add("--snapshots", &o.snapshots, "Server: folder for snapshots", {.value = "FOLDER"});
  command.add("--threads", &o.threads, "Server: threads; 0: one per core, up to 4",
              {.least = 0, .most = 256});
  command.add("--join-timeout", &o.join_timeout, "Server: time for the directory to answer",
              {.value = "TIME"});
  command.add("--until-stdin-ends", &o.until_stdin_ends, "",
              {.choices = {"plain", "secret"}, .hidden = true});
}

}  // namespace

void add_serve_command(Command top) {
  Command command = top.add_command(
      "serve", "Run a parameter server, its directory, or the coordinator of a job");
  command.footer(kServeFooter);
  const auto o = std::make_shared<ServeOptions>();
  command.add("--coordinator", &o->coordinator, "Run the coordinator of a job");
  command.add("--directory", &o->servers.directory, "Run the directory that servers join",
              {.excludes = {"--coordinator"}});
  command.add("--server", &o->servers.server, "Run a parameter server",
              {.excludes = {"--directory", "--coordinator"}});
  command.add("--listen", &o->listen, "Address to listen at; port 0: any free port",
              {.value = "HOST:PORT"});
  command.add("--secret-file", &o->secret_file,
              "File with the secret of the job; required unless only this machine can connect",
              {.value = "FILE"});
  add_server_options(command, o->servers);
  add_coordinator_options(command, *o);
  command.action([o, command] { return run_serve(command, *o); });
}

}  // namespace tally::app
