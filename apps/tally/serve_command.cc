#include "apps/tally/commands.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "apps/tally/watch_target.h"
#include "base/errors.h"
#include "base/units.h"
#include "group/coordinator.h"
#include "group/local_access.h"
#include "group/reporter.h"
#include "process/interrupt.h"
#include "tally/server.h"

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

constexpr int kGaveUp = 3;
// Signals end poll(). A signal just before poll() is noticed after this time.
constexpr int kLookMilliseconds = 200;
// A server that is not admitted checks at this interval whether it should end.
constexpr std::chrono::milliseconds kTurn = std::chrono::seconds(2);

struct ServeOptions {
  bool coordinator = false;
  bool directory = false;
  bool server = false;  // no flag: directory and server in one process
  std::string listen = "127.0.0.1:0";
  std::string secret_file;

  double heartbeat = 1;
  double lost_after = 0;
  double stall_warning = 10;
  group::CoordinatorOptions watch;

  std::string directory_at;
  std::string memory_limit = "0";
  std::string snapshots;
  std::string silence_limit = "0s";
  std::string failover_limit = "30s";
  std::string join_timeout = "60s";
  // Set by a parent process of ours: "plain", or "secret", whose 32 bytes come on stdin. The server
  // ends when stdin does.
  std::string until_stdin_ends;
  int servers = 1;
  int replicas = 0;
  int threads = 0;
};

// Prints the sentence with the time of day.
void say(const std::string& sentence) {
  fmt::print("{:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), sentence);
  std::fflush(stdout);
}

int cannot_start(const Error& error) {
  fmt::print(stderr, "tally serve: {}\n", error.message);
  return error.code == ErrorCode::kInvalid ? kWrongUsage : 1;
}

Duration duration_of(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

Result<std::unique_ptr<group::Coordinator>> start_coordinator(const ServeOptions& options) {
  group::CoordinatorOptions watch = options.watch;
  const auto listen = group::address_from(options.listen);
  if (!listen.has_value()) return invalid("--listen " + listen.error().message);
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
  if (!coordinator.has_value()) return cannot_start(coordinator.error());
  say(fmt::format("watching job {} of {} ranks at {}", (*coordinator)->local_name(),
                  options.watch.size, to_string((*coordinator)->address())));
  while (process::interrupted() == 0) poll(nullptr, 0, kLookMilliseconds);
  say("ends; the ranks work on");
  return 0;
}

Result<std::chrono::milliseconds> time_in(const char* option, const std::string& text) {
  const auto time = parse_duration(text);
  if (!time.has_value()) return invalid("{} {}", option, time.error().message);
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(*time);
  if (whole.count() == 0) return invalid("{} {}: need more than 0", option, text);
  return whole;
}

// Reads 32 bytes from the parent process.
Result<Secret> secret_on_stdin() {
  Secret secret;
  std::size_t filled = 0;
  while (filled < secret.bytes.size()) {
    const ssize_t count =
        ::read(STDIN_FILENO, secret.bytes.data() + filled, secret.bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return invalid("no secret came on stdin");
    filled += static_cast<std::size_t>(count);
  }
  return secret;
}

Result<std::optional<Secret>> secret_of(const ServeOptions& options) {
  if (options.until_stdin_ends != "secret") return secret_in(options.secret_file);
  TALLY_TRY(const Secret secret, secret_on_stdin());
  return std::optional(secret);
}

// The directory and server of one process.
struct Parts {
  std::unique_ptr<server::Directory> directory;
  std::unique_ptr<server::Server> server;
};

Result<std::unique_ptr<server::Directory>> start_directory(const ServeOptions& options,
                                                           const std::optional<Secret>& secret,
                                                           const server::EventSink& tell) {
  const auto silence = parse_duration(options.silence_limit);
  if (!silence.has_value()) return invalid("--silence-limit {}", silence.error().message);
  TALLY_TRY(const auto failover, time_in("--failover-limit", options.failover_limit));
  return server::Directory::start(
      {.listen = options.listen,
       .secret = secret,
       .servers = options.servers,
       .replicas = options.replicas,
       .silence_limit = std::chrono::ceil<std::chrono::milliseconds>(*silence),
       .failover_limit = failover},
      tell);
}

Result<std::unique_ptr<server::Server>> start_server(const ServeOptions& options,
                                                     const std::string& directory,
                                                     const std::optional<Secret>& secret,
                                                     const std::string& listen,
                                                     const server::EventSink& tell) {
  const auto limit = parse_bytes(options.memory_limit);
  if (!limit.has_value()) return invalid("--memory-limit " + limit.error().message);
  TALLY_TRY(const auto join_timeout, time_in("--join-timeout", options.join_timeout));
  server::ServerOptions asked{.directory = directory,
                              .listen = listen,
                              .secret = secret,
                              .threads = options.threads,
                              .memory_limit_bytes = *limit,
                              .snapshots = options.snapshots};
  auto left = join_timeout;
  while (true) {
    asked.join_timeout = std::min(left, kTurn);
    left -= asked.join_timeout;
    auto started = server::Server::start(asked, tell);
    if (started.has_value() || started.error().code != ErrorCode::kTimeout || left.count() == 0 ||
        process::interrupted() != 0)
      return started;
  }
}

// Returns the same host with port 0.
std::string beside(const std::string& address) {
  return address.substr(0, address.rfind(':')) + ":0";
}

Result<Parts> start_parts(const ServeOptions& options, const server::EventSink& tell) {
  if (options.server && options.directory_at.empty())
    return invalid("--server needs --directory-at HOST:PORT");
  TALLY_TRY(const std::optional<Secret> secret, secret_of(options));
  Parts parts;
  if (!options.server) {
    TALLY_TRY(parts.directory, start_directory(options, secret, tell));
    say(fmt::format("directory at {}, for {} server{}", parts.directory->address(), options.servers,
                    options.servers == 1 ? "" : "s"));
  }
  if (!options.directory) {
    const std::string directory =
        options.server ? options.directory_at : parts.directory->address();
    TALLY_TRY(parts.server,
              start_server(options, directory, secret,
                           options.server ? options.listen : beside(options.listen), tell));
    say(fmt::format("server at {}, of the directory at {}", parts.server->address(), directory));
  }
  return parts;
}

// Whether the parent process is gone. Its bytes are read and ignored.
bool stdin_ended() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, kLookMilliseconds) <= 0) return false;
  char ignored[64];
  const ssize_t count = ::read(STDIN_FILENO, ignored, sizeof(ignored));
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

// Serves until a signal, or until the directory is gone. Returns the exit code.
int serve_servers(const ServeOptions& options) {
  const process::InterruptGuard guard;
  // Events of the parts are not shown while all of them end.
  std::atomic<bool> ending = false;
  const auto tell = [&ending](const std::string& sentence) {
    if (!ending) say(sentence);
  };
  const auto parts = start_parts(options, tell);
  if (!parts.has_value() && process::interrupted() != 0) return process::kInterruptedExitCode;
  if (!parts.has_value()) return cannot_start(parts.error());
  const bool watched = !options.until_stdin_ends.empty();
  while (process::interrupted() == 0) {
    if (watched && stdin_ended()) break;
    if (!watched) poll(nullptr, 0, kLookMilliseconds);
    if (parts->server && parts->server->expelled()) {
      say("the directory is gone, or has given this server up: it ends");
      return kGaveUp;
    }
  }
  ending = true;
  say(parts->server && !parts->directory ? "ends; others go on with its tables" : "ends");
  return 0;
}

// Returns which option is missing or does not belong to the selected mode; empty: all are right.
std::string complaint(const Command& command, const ServeOptions& options) {
  const std::string way = options.coordinator ? "--coordinator"
                          : options.directory ? "--directory"
                          : options.server    ? "--server"
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
                  "--threads", "--silence-limit", "--failover-limit"});
  }
  const std::string other = wrong({"--job", "--size", "--generation", "--state-file", "--heartbeat",
                                   "--lost-after", "--stall-warning"});
  if (!other.empty()) return other;
  if (options.directory)
    return wrong({"--directory-at", "--memory-limit", "--snapshots", "--threads"});
  if (options.server)
    return wrong({"--servers", "--replicas", "--silence-limit", "--failover-limit"});
  if (!command.given("--listen"))
    return "nothing to serve: give --listen HOST:PORT, --directory, --server or --coordinator";
  return wrong({"--servers", "--replicas", "--directory-at"});
}

int run_serve(const Command& command, const ServeOptions& options) {
  const std::string wrong = complaint(command, options);
  if (!wrong.empty()) return cannot_start(invalid(wrong));
  return options.coordinator ? coordinate(options) : serve_servers(options);
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
              "heartbeat, and on this host never while its process lives",
              {.least = 0, .most = kMostSeconds});
  command.add("--stall-warning", &o.stall_warning,
              "Coordinator: seconds of waiting that are reported",
              {.least = 0.01, .most = kMostSeconds});
}

void add_server_options(Command& command, ServeOptions& o) {
  command.add("--servers", &o.servers, "Directory: servers at the start; more may join later",
              {.least = 1, .most = 4096});
  command.add("--replicas", &o.replicas,
              "Directory: servers that hold each part; 0: two, or one if there is one server",
              {.least = 0, .most = 16});
  command.add("--silence-limit", &o.silence_limit,
              "Directory: silence after which a server or worker is given up; 0: 5 s, and on this "
              "host never while its process lives, except by --failover-limit",
              {.value = "TIME"});
  command.add("--failover-limit", &o.failover_limit,
              "Directory, without --silence-limit: silence after which a server is given up though "
              "its process lives, if other servers have all its parts",
              {.value = "TIME"});
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
  command.add("--directory", &o->directory, "Run the directory that servers join",
              {.excludes = {"--coordinator"}});
  command.add("--server", &o->server, "Run a parameter server",
              {.excludes = {"--directory", "--coordinator"}});
  command.add("--listen", &o->listen, "Address to listen at; port 0: any free port",
              {.value = "HOST:PORT"});
  command.add("--secret-file", &o->secret_file,
              "File with the secret of the job; required unless only this machine can connect",
              {.value = "FILE"});
  add_server_options(command, *o);
  add_coordinator_options(command, *o);
  command.action([o, command] { return run_serve(command, *o); });
}

}  // namespace tally::app
