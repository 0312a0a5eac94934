#include "apps/tally/launch/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/tally/launch/launch_options.h"

namespace tally::launch {
namespace {

// Returns the paths for execve(): `name` itself if it has a slash, else one in each folder of PATH.
std::vector<std::string> candidates(const std::string& name,
                                    const std::vector<std::string>& environment) {
  if (name.find('/') != std::string::npos) return {name};
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : environment)
    if (entry.rfind("PATH=", 0) == 0) path = entry.substr(5);
  std::vector<std::string> found;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t stop = std::min(path.find(':', start), path.size());
    const std::string folder = path.substr(start, stop - start);
    found.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, name));
    start = stop + 1;
  }
  return found;
}

// Runs between fork() and exec, where only async-signal-safe calls are allowed. Returns the error
// number.
int exec_rank(const std::vector<char*>& programs, char* const* arguments, char* const* environment,
              const cpu_set_t* cpus, const std::array<int, 3>& streams, pid_t parent) {
  process::become_child_of(parent);
  for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
  if (cpus != nullptr) ::sched_setaffinity(0, sizeof(*cpus), cpus);
  int reason = ENOENT;
  for (const char* const program : programs) {
    if (program == nullptr) break;
    ::execve(program, arguments, environment);
    // As a shell does: a file that may not be executed is skipped, but reported if none is found.
    if (errno != ENOENT && errno != ENOTDIR) reason = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  return reason;
}

StartFailure failure(const std::string& what, int reason) {
  return {.code = reason == ENOENT || reason == ENOTDIR ? kNotFound : kNotRunnable,
          .note = fmt::format("{}: {}", what, strerror(reason))};
}

}  // namespace

std::variant<RankProcess, StartFailure> start_rank(const RankOptions& options) {
  const std::string& name = options.command.front();
  auto output = make_pipe();
  auto errors = make_pipe();
  auto exec_failure = make_pipe();
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!output || !errors || !exec_failure || !nothing.open()) return failure(name, errno);

  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = options.environment;
  std::vector<std::string> paths = candidates(name, environment);
  const std::vector<char*> programs = pointers_to(paths);
  const std::vector<char*> arguments = pointers_to(command);
  const std::vector<char*> variables = pointers_to(environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : options.cpus) CPU_SET(cpu, &cpus);
  const std::array streams = {nothing.descriptor(), output->write.descriptor(),
                              errors->write.descriptor()};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int reason = exec_rank(programs, arguments.data(), variables.data(),
                                 options.cpus.empty() ? nullptr : &cpus, streams, parent);
    [[maybe_unused]] const auto told =
        ::write(exec_failure->write.descriptor(), &reason, sizeof(reason));
    ::_exit(kNotFound);
  }
  if (pid < 0) return failure("fork", errno);
  process::make_group_leader(pid);
  exec_failure->write.reset();
  int reason = 0;
  ssize_t told = -1;
  do {
    told = ::read(exec_failure->read.descriptor(), &reason, sizeof(reason));
  } while (told < 0 && errno == EINTR);
  if (told == sizeof(reason)) {
    process::reap(pid);
    return failure(name, reason);
  }
  make_non_blocking(output->read);
  make_non_blocking(errors->read);
  return RankProcess{
      .pid = pid, .output = std::move(output->read), .errors = std::move(errors->read)};
}

}  // namespace tally::launch
