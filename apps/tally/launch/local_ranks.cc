#include "apps/tally/launch/local_ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "apps/tally/launch/agent_resources.h"
#include "apps/tally/launch/cpu_shares.h"
#include "apps/tally/launch/launcher.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "process/child_process.h"

namespace tally::launch {
namespace {

// Reads of 64 KiB each: 1 MiB, the largest capacity of a pipe.
constexpr int kMaxReadsAfterEnd = 16;

constexpr const char* kThreads = "OMP_NUM_THREADS";
// How long an idle thread of GNU OpenMP spins before it sleeps. The default is some milliseconds:
// where another process uses a core, the threads then burn their time while they wait for the one
// that does not run.
constexpr const char* kWaitPolicy = "OMP_WAIT_POLICY";
constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
constexpr const char* kSpins = "1000";

bool has(const Variables& variables, const std::string& name) {
  return std::any_of(variables.begin(), variables.end(),
                     [&name](const auto& variable) { return variable.first == name; });
}

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

// Called in the child after fork(). Returns the error number if no program can be executed.
int exec_first(const std::vector<char*>& programs, char* const* arguments,
               char* const* environment) {
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

// No program runs: the message has the exit code of a shell, 127 not found or 126 not executable.
Ended failure(Rank rank, const std::string& what, int reason) {
  return {.rank = rank,
          .code = reason == ENOENT || reason == ENOTDIR ? kNotFound : kNotRunnable,
          .note = fmt::format("{}: {}", what, strerror(reason))};
}

// Starts a program, a path or a name to look up in PATH, with the whole environment, on `bound`
// processors or, if there are none, on any. Waits for exec, so that a program that cannot run is
// reported at once.
std::variant<RankProcess, Ended> start_rank(Rank rank, std::vector<std::string> command,
                                            std::vector<std::string> environment,
                                            const std::vector<int>& bound) {
  const std::string name = command.front();
  auto output = process::make_pipe();
  auto errors = process::make_pipe();
  auto exec_failure = process::make_pipe();
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!output || !errors || !exec_failure || !nothing.open()) return failure(rank, name, errno);
  std::vector<std::string> paths = candidates(name, environment);
  const std::vector<char*> programs = process::pointers_to(paths);
  const std::vector<char*> arguments = process::pointers_to(command);
  const std::vector<char*> variables = process::pointers_to(environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : bound) CPU_SET(cpu, &cpus);
  const pid_t pid = process::fork_child([&] {
    process::connect_streams(
        {nothing.descriptor(), output->write.descriptor(), errors->write.descriptor()});
    if (!bound.empty()) ::sched_setaffinity(0, sizeof(cpus), &cpus);
    const int reason = exec_first(programs, arguments.data(), variables.data());
    [[maybe_unused]] const auto told =
        ::write(exec_failure->write.descriptor(), &reason, sizeof(reason));
  });
  if (pid < 0) return failure(rank, "fork", errno);
  exec_failure->write.reset();
  int reason = 0;
  ssize_t told = -1;
  do {
    told = ::read(exec_failure->read.descriptor(), &reason, sizeof(reason));
  } while (told < 0 && errno == EINTR);
  if (told == sizeof(reason)) {
    process::reap(pid);
    return failure(rank, name, reason);
  }
  process::make_non_blocking(output->read);
  process::make_non_blocking(errors->read);
  return RankProcess{
      .pid = pid, .output = std::move(output->read), .errors = std::move(errors->read)};
}

// Returns processors by local rank; empty: not bound.
std::vector<std::vector<int>> shares_for(const Launch& launch) {
  const std::vector<Cpu> cpus = usable_cpus();
  const bool enough = usable_cores() >= launch.ranks;
  const bool bound = launch.binding == Binding::kCores ||
                     (launch.binding == Binding::kAuto && enough && launch.ranks > 1);
  if (!bound || cpus.empty()) return std::vector<std::vector<int>>(launch.ranks);
  return share_cpus(cpus, launch.ranks);
}

}  // namespace

Variables LocalRanks::variables_of(const Launch& launch, int local_rank) const {
  Variables variables = launch.variables;
  const auto set = [&variables](const char* name, std::string value) {
    process::set_variable(variables, name, std::move(value));
  };
  set("RANK", std::to_string(launch.first_rank + local_rank));
  set("LOCAL_RANK", std::to_string(local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(launch.ranks));
  set("TALLY_SECRET_FILE", fmt::format("/proc/{}/fd/{}", ::getpid(), secret_.descriptor()));
  const auto is_set = [&variables](const char* name) {
    return has(variables, name) || std::getenv(name) != nullptr;
  };
  if (!is_set(kThreads)) set(kThreads, std::to_string(std::max(1, usable_cores() / launch.ranks)));
  if (!is_set(kWaitPolicy) && !is_set(kSpinCount)) set(kSpinCount, kSpins);
  return variables;
}

Result<void> LocalRanks::start(const Launch& launch) {
  if (::chdir(launch.folder.c_str()) != 0)
    return system_failure("cannot work in {}: {}", launch.folder, strerror(errno));
  TALLY_TRY(secret_, secret_in_memory(launch.secret));
  const auto shares = shares_for(launch);
  for (int local = 0; local < launch.ranks; ++local) {
    const Rank rank = launch.first_rank + local;
    auto started =
        start_rank(rank, launch.command, process::environment_with(variables_of(launch, local)),
                   shares[static_cast<std::size_t>(local)]);
    if (const auto* const ended = std::get_if<Ended>(&started)) {
      send_(*ended);
      continue;
    }
    auto& process = std::get<RankProcess>(started);
    send_(Started{.rank = rank, .pid = process.pid});
    members_.push_back({.rank = rank, .process = std::move(process)});
  }
  return {};
}

void LocalRanks::add_to(std::vector<pollfd>& entries) const {
  if (!has_room_()) return;
  for (const Member& member : members_)
    for (const Descriptor* pipe : {&member.process.output, &member.process.errors})
      if (pipe->open())
        entries.push_back({.fd = pipe->descriptor(), .events = POLLIN, .revents = 0});
}

void LocalRanks::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    // Other pids are orphans that ranks have left to this process.
    for (Member& member : members_)
      if (member.process.pid == pid && !member.status) member.status = status;
  }
}

bool LocalRanks::pass_on(Member& member, Stream stream) {
  Descriptor& pipe = stream == Stream::kOutput ? member.process.output : member.process.errors;
  if (!pipe.open()) return true;
  if (!has_room_()) return false;
  const ssize_t count = ::read(pipe.descriptor(), buffer_.data(), buffer_.size());
  if (count < 0 && errno == EINTR) return false;
  if (count < 0 && errno == EAGAIN) return true;
  if (count <= 0) {
    pipe.reset();
    return true;
  }
  if (member.status) ++member.reads_after_end;
  send_(Output{.rank = member.rank,
               .stream = stream,
               .bytes = std::string(buffer_.data(), static_cast<std::size_t>(count))});
  return false;
}

// One read of each pipe while the rank runs. After its end all output is passed on before the
// report of the end; a process that the rank left behind may write for ever, so at most the
// capacity of a pipe is read.
void LocalRanks::advance(Member& member) {
  bool quiet = false;
  do {
    const bool no_output = pass_on(member, Stream::kOutput);
    const bool no_errors = pass_on(member, Stream::kErrors);
    quiet = (no_output && no_errors) || member.reads_after_end > kMaxReadsAfterEnd;
  } while (!quiet && member.status && !member.reported && has_room_());
  if (!quiet || !member.status || member.reported) return;
  member.reported = true;
  const process::ExitStatus end = process::exit_status(*member.status);
  send_(Ended{.rank = member.rank, .code = end.code, .signal = end.signal});
}

void LocalRanks::advance() {
  // Ranks are reaped before the pipes are read, so that all output of an ended rank is in its pipe.
  // Each call begins with another rank, so that a rank that never stops writing does not starve the
  // others.
  reap();
  for (std::size_t i = 0; i < members_.size(); ++i)
    advance(members_[(first_ + i) % members_.size()]);
  ++first_;
}

void LocalRanks::signal(int number) {
  for (const Member& member : members_)
    if (!member.status) ::kill(-member.process.pid, number);
}

}  // namespace tally::launch
