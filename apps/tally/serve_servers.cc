#include "apps/tally/serve_servers.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "apps/tally/command_line.h"
#include "apps/tally/watch_target.h"
#include "base/errors.h"
#include "base/units.h"
#include "process/interrupt.h"

namespace tally::app {
namespace {

constexpr int kGaveUp = 3;
// A server that is not admitted checks at this interval whether it should end.
constexpr std::chrono::milliseconds kTurn = std::chrono::seconds(2);

Result<std::chrono::milliseconds> time_in(const char* option, const std::string& text) {
  const auto time = parse_duration(text);
  if (!time.has_value()) return invalid(fmt::format("{} {}", option, time.error().message));
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(*time);
  if (whole.count() == 0) return invalid(fmt::format("{} {}: need more than 0", option, text));
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

Result<std::optional<Secret>> secret_of(const ServeServers& options) {
  if (options.until_stdin_ends != "secret") return secret_in(options.secret_file);
  TALLY_TRY(const Secret secret, secret_on_stdin());
  return std::optional(secret);
}

// The directory and server of one process.
struct Parts {
  std::unique_ptr<server::Directory> directory;
  std::unique_ptr<server::Server> server;
};

Result<std::unique_ptr<server::Directory>> start_directory(const ServeServers& options,
                                                           const std::optional<Secret>& secret,
                                                           const server::EventSink& tell) {
  TALLY_TRY(const auto silence, time_in("--silence-limit", options.silence_limit));
  return server::Directory::start({.listen = options.listen,
                                   .secret = secret,
                                   .servers = options.servers,
                                   .replicas = options.replicas,
                                   .silence_limit = silence},
                                  tell);
}

Result<std::unique_ptr<server::Server>> start_server(const ServeServers& options,
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

Result<Parts> start_parts(const ServeServers& options, const server::EventSink& tell) {
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

}  // namespace

void say(const std::string& sentence) {
  fmt::print("{:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), sentence);
  std::fflush(stdout);
}

int serve_servers(const ServeServers& options) {
  const process::InterruptGuard guard;
  // Events of the parts are not shown while all of them end.
  std::atomic<bool> ending = false;
  const auto tell = [&ending](const std::string& sentence) {
    if (!ending) say(sentence);
  };
  const auto parts = start_parts(options, tell);
  if (!parts.has_value() && process::interrupted() != 0) return process::kInterruptedExitCode;
  if (!parts.has_value()) {
    fmt::print(stderr, "tally serve: {}\n", parts.error().message);
    return parts.error().code == ErrorCode::kInvalid ? kWrongUsage : 1;
  }
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

}  // namespace tally::app
