#include "bench/allreduce/worker_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "process/interrupt.h"

namespace tally::bench {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr std::size_t kLogLines = 8;
constexpr auto kLeaveTimeout = std::chrono::seconds(10);
constexpr auto kTerminateTimeout = std::chrono::seconds(2);

// Opened in both directions: neither side waits for the other to open, and the pipe stays usable
// when a worker is gone.
Result<int> make_pipe(const std::string& path) {
  const int made = ::mkfifo(path.c_str(), 0600);
  const int fd = made == 0 ? ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
  if (fd >= 0) return fd;
  return Error{.code = ErrorCode::kSystem,
               .message = fmt::format("cannot make the pipe {}: {}", path, strerror(errno))};
}

// "done RANK BYTES_SENT SAMPLE...".
Answer parse_done(std::istringstream& words) {
  Answer answer;
  std::string sent;
  words >> sent;
  if (!sent.empty() && sent != "-") answer.bytes_sent = std::stod(sent);
  for (double sample = 0; words >> sample;) answer.samples_us.push_back(sample);
  return answer;
}

}  // namespace

Result<std::unique_ptr<WorkerGroup>> WorkerGroup::start(Launch launch, Deadline by) {
  std::unique_ptr<WorkerGroup> group(new WorkerGroup(std::move(launch)));
  TALLY_TRY(group->open_pipes());
  for (const process::ChildOptions& options : group->launch_.processes) {
    TALLY_TRY(std::unique_ptr<process::ChildProcess> process,
              process::ChildProcess::start(options));
    group->processes_.push_back(std::move(process));
  }
  TALLY_TRY(group->collect(by));
  return group;
}

WorkerGroup::~WorkerGroup() {
  for (const int fd : command_fds_) ::close(fd);
  end_processes();
  if (answer_fd_ >= 0) ::close(answer_fd_);
}

Result<void> WorkerGroup::open_pipes() {
  const std::string& folder = launch_.folder->path();
  for (Rank rank = 0; rank < launch_.ranks; ++rank) {
    TALLY_TRY(const int fd, make_pipe(fmt::format("{}/in.{}", folder, rank)));
    command_fds_.push_back(fd);
  }
  TALLY_TRY(answer_fd_, make_pipe(folder + "/out"));
  return {};
}

Result<Answer> WorkerGroup::command(const std::string& line, Deadline by) {
  const std::string text = line + "\n";
  for (Rank rank = 0; rank < launch_.ranks; ++rank) {
    if (::write(command_fds_[rank], text.data(), text.size()) !=
        static_cast<ssize_t>(text.size())) {
      failed_ = true;
      return Error{.code = ErrorCode::kSystem,
                   .peer = rank,
                   .message = fmt::format("cannot command rank {}: {}", rank, strerror(errno))};
    }
  }
  return collect(by);
}

// Waits for one line of every rank.
Result<Answer> WorkerGroup::collect(Deadline by) {
  const SteadyClock clock;
  Answer answer;
  std::set<Rank> awaited;
  for (Rank rank = 0; rank < launch_.ranks; ++rank) awaited.insert(rank);
  failed_ = true;  // until all have answered
  while (!awaited.empty()) {
    std::string line;
    TALLY_TRY(const bool found, next_line(line));
    if (found) {
      std::istringstream words(line);
      std::string kind;
      Rank rank = kNoRank;
      words >> kind >> rank;
      if (kind == "failed") {
        return Error{.code = ErrorCode::kCorrupt,
                     .peer = rank,
                     .message = fmt::format("rank {}: {}", rank, line.substr(line.find(' ') + 1))};
      }
      awaited.erase(rank);
      if (kind == "ready" && rank == 0) std::getline(words >> std::ws, version_);
      if (kind == "done" && rank == 0) answer = parse_done(words);
      continue;
    }
    TALLY_TRY(processes_alive());
    if (process::interrupted() != 0) {
      return Error{.code = ErrorCode::kClosed, .message = "interrupted"};
    }
    if (by.passed(clock.now())) {
      return Error{.code = ErrorCode::kTimeout,
                   .peer = *awaited.begin(),
                   .message = fmt::format("no answer in time from ranks {}{}",
                                          fmt::join(awaited, ", "), log_tail())};
    }
  }
  failed_ = false;
  return answer;
}

Result<bool> WorkerGroup::next_line(std::string& line) {
  std::size_t end = unread_.find('\n');
  if (end == std::string::npos) {
    pollfd waiting{.fd = answer_fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kPollMilliseconds) > 0) {
      std::array<char, 8192> bytes{};
      const ssize_t got = ::read(answer_fd_, bytes.data(), bytes.size());
      if (got > 0) unread_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    end = unread_.find('\n');
  }
  if (end == std::string::npos) return false;
  line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return true;
}

Result<void> WorkerGroup::processes_alive() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const auto status = processes_[i]->poll();
    if (!status) continue;
    const bool is_rank = processes_.size() == static_cast<std::size_t>(launch_.ranks);
    const std::string who =
        is_rank ? fmt::format("rank {}", i) : launch_.processes[i].command.front();
    return Error{.code = ErrorCode::kPeerLost,
                 .peer = is_rank ? static_cast<Rank>(i) : kNoRank,
                 .message = fmt::format("{} {}{}", who, to_string(*status), log_tail())};
  }
  return {};
}

// Returns the last lines of the workers' output, for an error.
std::string WorkerGroup::log_tail() const {
  if (launch_.processes.empty()) return "";
  std::ifstream log(launch_.processes.front().log_file);
  std::deque<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    if (line.empty()) continue;
    lines.push_back(line);
    if (lines.size() > kLogLines) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += "\n    | " + line;
  return text;
}

// Healthy workers leave when their pipes close. A launcher is asked to end its ranks before it is
// killed.
void WorkerGroup::end_processes() {
  const SteadyClock clock;
  const bool hurried = failed_ || process::interrupted() != 0;
  const auto wait_all = [&](Duration timeout) {
    const Deadline by = clock.after(timeout);
    bool all = true;
    for (auto& process : processes_) all = process->wait(by).has_value() && all;
    return all;
  };
  if (!hurried && wait_all(kLeaveTimeout)) return;
  for (auto& process : processes_) process->signal(SIGTERM);
  wait_all(kTerminateTimeout);
  processes_.clear();
}

}  // namespace tally::bench
