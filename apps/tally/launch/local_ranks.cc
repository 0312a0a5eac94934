#include "apps/tally/launch/local_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "apps/tally/launch/agent_resources.h"
#include "apps/tally/launch/cpu_shares.h"
#include "base/cpu.h"

namespace tally::launch {
namespace {

// Reads of 64 KiB each: 1 MiB, the largest capacity of a pipe.
constexpr int kMaxReadsAfterEnd = 16;

constexpr const char* kThreads = "OMP_NUM_THREADS";

bool has(const Variables& variables, const std::string& name) {
  return std::any_of(variables.begin(), variables.end(),
                     [&name](const auto& variable) { return variable.first == name; });
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
    set_variable(variables, name, std::move(value));
  };
  set("RANK", std::to_string(launch.first_rank + local_rank));
  set("LOCAL_RANK", std::to_string(local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(launch.ranks));
  set("TALLY_SECRET_FILE", fmt::format("/proc/{}/fd/{}", ::getpid(), secret_.descriptor()));
  if (!has(variables, kThreads) && std::getenv(kThreads) == nullptr)
    set(kThreads, std::to_string(std::max(1, usable_cores() / launch.ranks)));
  return variables;
}

Result<void> LocalRanks::start(const Launch& launch) {
  if (::chdir(launch.folder.c_str()) != 0)
    return Error{.code = ErrorCode::kSystem,
                 .message = fmt::format("cannot work in {}: {}", launch.folder, strerror(errno))};
  TALLY_TRY(secret_, secret_in_memory(launch.secret));
  const auto shares = shares_for(launch);
  for (int local = 0; local < launch.ranks; ++local) {
    const Rank rank = launch.first_rank + local;
    auto started = start_rank({.command = launch.command,
                               .environment = environment_with(variables_of(launch, local)),
                               .cpus = shares[static_cast<std::size_t>(local)]});
    if (const auto* const failure = std::get_if<StartFailure>(&started)) {
      send_(Ended{.rank = rank, .code = failure->code, .note = failure->note});
      continue;
    }
    auto& process = std::get<RankProcess>(started);
    send_(Started{.rank = rank, .pid = process.pid});
    members_.push_back({.rank = rank,
                        .pid = process.pid,
                        .output = std::move(process.output),
                        .errors = std::move(process.errors)});
  }
  return {};
}

void LocalRanks::add_to(std::vector<pollfd>& entries) const {
  if (!has_room_()) return;
  for (const Member& member : members_)
    for (const Descriptor* pipe : {&member.output, &member.errors})
      if (pipe->open())
        entries.push_back({.fd = pipe->descriptor(), .events = POLLIN, .revents = 0});
}

void LocalRanks::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    // Other pids are orphans that ranks have left to this process.
    for (Member& member : members_)
      if (member.pid == pid && !member.status) member.status = status;
  }
}

bool LocalRanks::pass_on(Member& member, Stream stream) {
  Descriptor& pipe = stream == Stream::kOutput ? member.output : member.errors;
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
  const int status = *member.status;
  send_(Ended{.rank = member.rank,
              .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0});
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
    if (!member.status) ::kill(-member.pid, number);
}

bool LocalRanks::running() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return !member.status; });
}

}  // namespace tally::launch
