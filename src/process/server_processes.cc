#include "process/server_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "net/segment_share.h"
#include "net/socket.h"
#include "process/child_process.h"
#include "process/exec.h"

namespace tally::process {
namespace {

using namespace std::chrono_literals;

constexpr Duration kGrace = 2s;
constexpr int kLookMilliseconds = 100;

std::vector<std::string> command_of(const ServerProcessesOptions& options,
                                    const std::string& directory) {
  const net::Address any{.host = options.host, .port = 0};
  std::vector<std::string> command = {
      options.program.empty() ? program_beside("tally") : options.program,
      "serve",
      "--server",
      "--directory-at",
      directory,
      "--listen",
      to_string(any),
      "--until-stdin-ends",
      options.secret ? "secret" : "plain",
  };
  const auto add = [&command](const char* name, std::string value) {
    command.emplace_back(name);
    command.push_back(std::move(value));
  };
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  if (options.memory_limit_bytes > 0)
    add("--memory-limit", fmt::format("{}B", options.memory_limit_bytes));
  if (!options.snapshots.empty()) add("--snapshots", options.snapshots.string());
  return command;
}

}  // namespace

Result<std::unique_ptr<ServerProcesses>> ServerProcesses::start(
    const ServerProcessesOptions& options, server::EventSink on_event) {
  const net::Address any{.host = options.host, .port = 0};
  std::unique_ptr<ServerProcesses> started(new ServerProcesses(options, std::move(on_event)));
  TALLY_TRY(started->directory_,
            server::Directory::start(
                {.listen = to_string(any),
                 .secret = options.secret,
                 .servers = options.servers,
                 .replicas = options.replicas,
                 .silence_limit = options.silence_limit},
                [self = started.get()](const std::string& sentence) { self->tell(sentence); }));
  for (int i = 0; i < options.servers; ++i) TALLY_TRY(started->start_server());
  ServerProcesses& self = *started;
  self.watcher_ = std::jthread([&self](const std::stop_token& stop) { self.watch(stop); });
  return started;
}

Result<void> ServerProcesses::start_server() {
  TALLY_TRY(Pipe life, make_pipe());
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  std::vector<std::string> command = command_of(options_, directory());
  const std::vector<char*> arguments = pointers_to(command);
  // In a group of its own the server does not receive Ctrl-C: its parent ends it.
  const pid_t pid = fork_child([&] {
    connect_streams({life.read.descriptor(), nowhere.descriptor(), -1});
    ::execv(arguments.front(), arguments.data());
  });
  if (pid < 0) return system_failure("cannot start a server process: {}", strerror(errno));
  {
    const MutexLock lock(mutex_);
    processes_.push_back({.pid = pid, .life = std::move(life.write), .watch = {}, .ended = false});
    auto watch = net::watch_process({.pid = pid});
    if (watch.has_value()) processes_.back().watch = *std::move(watch);
    if (options_.secret) {
      // A pipe has room for the secret.
      const auto& bytes = options_.secret->bytes;
      const ssize_t written =
          ::write(processes_.back().life.descriptor(), bytes.data(), bytes.size());
      if (written != static_cast<ssize_t>(bytes.size()))
        return system_failure("a server process ended at once");
    }
  }
  return {};
}

std::vector<pid_t> ServerProcesses::processes() const {
  const MutexLock lock(mutex_);
  std::vector<pid_t> living;
  for (const Process& process : processes_)
    if (!process.ended) living.push_back(process.pid);
  return living;
}

void ServerProcesses::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> watched;
    {
      const MutexLock lock(mutex_);
      for (const Process& process : processes_)
        if (!process.ended && process.watch.open())
          watched.push_back({.fd = process.watch.descriptor(), .events = POLLIN, .revents = 0});
    }
    ::poll(watched.data(), watched.size(), kLookMilliseconds);
    const std::vector<std::string> ends = look();
    if (ending_) return;
    for (const std::string& end : ends) tell(fmt::format("{}: {}", end, replace_server()));
  }
}

// Reaps processes that have ended; returns a sentence about each.
std::vector<std::string> ServerProcesses::look() {
  std::vector<std::string> sentences;
  {
    const MutexLock lock(mutex_);
    for (Process& process : processes_) {
      if (process.ended) continue;
      int status = 0;
      const pid_t found = ::waitpid(process.pid, &status, WNOHANG);
      // If SIGCHLD is ignored, as the parent of this process may have set it, the exit status is
      // unknown.
      const bool untold = found < 0 && errno == ECHILD;
      if (found != process.pid && !untold) continue;
      process.ended = true;
      process.life.reset();
      // A server that ends before it has joined has no number.
      const std::uint32_t number = directory_->server_of(process.pid);
      const std::string name = number == 0 ? "server" : fmt::format("server {}", number);
      sentences.push_back(fmt::format("{} (pid {}) {}", name, process.pid,
                                      untold ? "ended" : to_string(exit_status(status))));
    }
  }
  return sentences;
}

std::string ServerProcesses::replace_server() {
  // Without a copy elsewhere, a new server has nothing to begin with.
  const bool has_copies = options_.servers > 1 && options_.replicas != 1;
  if (!has_copies || processes().empty()) return "no other server has its parts";
  if (restarts_ >= options_.most_restarts)
    return fmt::format("it is not started again after {} restarts", restarts_);
  ++restarts_;
  const auto started = start_server();
  if (!started.has_value()) return started.error().message;
  return fmt::format("started again as pid {} (restart {} of {})", processes().back(), restarts_,
                     options_.most_restarts);
}

void ServerProcesses::tell(const std::string& sentence) const {
  if (on_event_ && !ending_) on_event_(sentence);
}

bool ServerProcesses::all_ended() const {
  const MutexLock lock(mutex_);
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return process.ended; });
}

void ServerProcesses::signal_all(int number) {
  const MutexLock lock(mutex_);
  for (const Process& process : processes_)
    if (!process.ended) ::kill(process.pid, number);
}

ServerProcesses::~ServerProcesses() {
  ending_ = true;
  // The system kills the servers that the watcher has started when its thread ends: they end first.
  signal_all(SIGTERM);
  signal_all(SIGCONT);
  const auto await_end = [this](Deadline by) {
    for (; !all_ended() && !by.passed(steady_now()); ::poll(nullptr, 0, 5)) look();
  };
  await_end(Deadline::after(kGrace));
  watcher_ = {};
  signal_all(SIGKILL);
  await_end(Deadline::never());
}

}  // namespace tally::process
