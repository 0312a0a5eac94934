#include "process/child_process.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/file.h"
#include "process/interrupt.h"
#include "process/temp_dir.h"

namespace tally::process {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(10);
constexpr auto kPatience = std::chrono::milliseconds(100);  // between checks of interrupted()

}  // namespace

ExitStatus exit_status(int status) {
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

std::string to_string(const ExitStatus& status) {
  if (status.signal != 0) {
    return fmt::format("was killed by signal {} ({})", status.signal, strsignal(status.signal));
  }
  return fmt::format("exited with code {}", status.code);
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildOptions& options) {
  const auto program = find_program(options.command.front());
  if (!program) {
    return system_failure("no program {}", options.command.front());
  }
  Descriptor log;
  if (!options.log_file.empty()) {
    log = Descriptor(
        ::open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log.open())
      return system_failure("cannot write {}: {}", options.log_file, strerror(errno));
  }
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = environment_with(options.variables);
  const std::vector<char*> arguments = pointers_to(command);
  const std::vector<char*> variables = pointers_to(environment);
  const pid_t pid = fork_child([&] {
    if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) return;
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    connect_streams({nothing, log.descriptor(), log.descriptor()});
    ::execve(program->c_str(), arguments.data(), variables.data());
  });
  if (pid < 0) return system_failure("cannot start a process: {}", strerror(errno));
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid));
}

ChildProcess::~ChildProcess() {
  if (poll()) return;
  signal(SIGKILL);
  reap(pid_);
}

std::optional<ExitStatus> ChildProcess::poll() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) ended_ = exit_status(status);
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

std::string own_program() {
  std::error_code missing;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", missing);
  if (!missing) return path.string();
  // Without /proc: the path that execve() got.
  const auto* const given = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return given == nullptr ? "" : std::filesystem::absolute(given, missing).string();
}

std::string program_beside(const std::string& name) {
  return std::filesystem::path(own_program()).replace_filename(name).string();
}

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
  return system_failure("{} {}: {}", command.front(),
                        status ? to_string(*status) : "did not end in time", output);
}

}  // namespace tally::process
