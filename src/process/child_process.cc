#include "process/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "process/exec.h"
#include "process/interrupt.h"
#include "process/temp_dir.h"

namespace tally::process {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(10);
constexpr auto kPatience = std::chrono::milliseconds(100);  // between checks of interrupted()

// Runs between fork() and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment,
                         const char* folder, int log_fd, pid_t parent) {
  become_child_of(parent);
  if (*folder != '\0' && ::chdir(folder) != 0) ::_exit(127);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd >= 0) ::dup2(null_fd, STDIN_FILENO);
  if (log_fd >= 0) {
    ::dup2(log_fd, STDOUT_FILENO);
    ::dup2(log_fd, STDERR_FILENO);
  }
  ::execve(program, arguments, environment);
  ::_exit(127);
}

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.signal != 0) {
    return fmt::format("was killed by signal {} ({})", status.signal, strsignal(status.signal));
  }
  return fmt::format("exited with code {}", status.code);
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildOptions& options) {
  const auto program = find_program(options.command.front());
  if (!program) {
    return Error{.code = ErrorCode::kSystem,
                 .message = fmt::format("no program {}", options.command.front())};
  }
  int log_fd = -1;
  if (!options.log_file.empty()) {
    log_fd = ::open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
      return Error{
          .code = ErrorCode::kSystem,
          .message = fmt::format("cannot write {}: {}", options.log_file, strerror(errno))};
    }
  }
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = environment_with(options.variables);
  const std::vector<char*> arguments = pointers_to(command);
  const std::vector<char*> variables = pointers_to(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    become(program->c_str(), arguments.data(), variables.data(), options.folder.c_str(), log_fd,
           parent);
  const int fork_error = errno;
  if (log_fd >= 0) ::close(log_fd);
  if (pid < 0) {
    return Error{.code = ErrorCode::kSystem,
                 .message = fmt::format("cannot start a process: {}", strerror(fork_error))};
  }
  make_group_leader(pid);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid));
}

ChildProcess::~ChildProcess() {
  if (poll()) return;
  signal(SIGKILL);
  reap(pid_);
}

std::optional<ExitStatus> ChildProcess::poll() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    if (WIFEXITED(status)) ended_ = ExitStatus{.code = WEXITSTATUS(status)};
    if (WIFSIGNALED(status)) ended_ = ExitStatus{.signal = WTERMSIG(status)};
  }
  return ended_;
}

std::optional<ExitStatus> ChildProcess::wait(Deadline by) {
  const SteadyClock clock;
  while (!poll() && !by.passed(clock.now())) {
    std::this_thread::sleep_for(kPollInterval);
  }
  return poll();
}

void ChildProcess::signal(int number) {
  if (!ended_) ::kill(-pid_, number);
}

std::optional<std::string> find_program(const std::string& name) {
  const auto runnable = [](const std::string& path) {
    return std::filesystem::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    return runnable(name) ? std::optional(name) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = fmt::format("{}/{}", folder, name);
    if (runnable(candidate)) return candidate;
  }
  return std::nullopt;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Result<std::string> output_of(const std::vector<std::string>& command, Deadline by) {
  TALLY_TRY(const std::unique_ptr<TempDir> folder, TempDir::make());
  const std::string log_file = folder->path() + "/output";
  TALLY_TRY(const std::unique_ptr<ChildProcess> child,
            ChildProcess::start({.command = command, .log_file = log_file}));
  const SteadyClock clock;
  std::optional<ExitStatus> status;
  while (!status && !by.passed(clock.now()) && interrupted() == 0) {
    status = child->wait(earlier(by, clock.after(kPatience)));
  }
  std::string output = file_contents(log_file).value_or("");
  if (status && status->ok()) return output;
  return Error{.code = ErrorCode::kSystem,
               .message = fmt::format("{} {}: {}", command.front(),
                                      status ? to_string(*status) : "did not end in time", output)};
}

}  // namespace tally::process
