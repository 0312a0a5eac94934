#include "bench/common/worker_group.h"

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
#include "base/errors.h"
#include "bench/common/rounds.h"

namespace tally::bench {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr std::size_t kLogLines = 8;
constexpr auto kLeaveTimeout = std::chrono::seconds(10);
constexpr auto kPythonTimeout = std::chrono::seconds(60);
constexpr auto kTerminateTimeout = std::chrono::seconds(2);

// Opened in both directions: neither side waits for the other to open, and the pipe stays usable
// when a worker is gone.
Result<Descriptor> make_pipe(const std::string& path) {
  const int made = ::mkfifo(path.c_str(), 0600);
  Descriptor pipe(made == 0 ? ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1);
  if (pipe.open()) return pipe;
  return system_failure("cannot make the pipe {}: {}", path, strerror(errno));
}

// One line in one write(): lines of different ranks do not mix.
bool write_line(const Descriptor& pipe, const std::string& line) {
  const std::string text = line + "\n";
  return ::write(pipe.descriptor(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
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

Result<Launch> Launch::make(std::string contender, std::string transport, int ranks) {
  Launch launch{
      .contender = std::move(contender), .transport = std::move(transport), .ranks = ranks};
  TALLY_TRY(launch.folder, process::TempDir::make());
  return launch;
}

void Launch::add(std::vector<std::string> command, process::Variables variables) {
  processes.push_back({.command = std::move(command),
                       .variables = std::move(variables),
                       .log_file = folder->path() + "/log"});
}

Result<void> Launch::add_tally_ranks(const std::vector<std::string>& command,
                                     const process::Variables& variables) {
  TALLY_TRY(job, process::LocalJob::make(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    process::Variables all = job->variables(rank);
    all.insert(all.end(), variables.begin(), variables.end());
    add(command, std::move(all));
  }
  return {};
}

Result<void> Launch::add_python_ranks(const std::string& python, const std::string& source,
                                      const std::vector<std::string>& arguments, int threads) {
  constexpr const char* kHasTorch =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  if (!process::find_program(python) ||
      !process::output_of({python, "-c", kHasTorch}, SteadyClock().after(kPythonTimeout)))
    return invalid(
        fmt::format("{} has no torch: package python3-torch, or another --python", python));
  TALLY_TRY(const std::string script, write("worker.py", source));
  std::vector<std::string> command = {python, script, folder->path()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  for (Rank rank = 0; rank < ranks; ++rank)
    add(command, {{"RANK", std::to_string(rank)},
                  {"WORLD_SIZE", std::to_string(ranks)},
                  {"OMP_NUM_THREADS", std::to_string(threads)},
                  {"GLOO_SOCKET_IFNAME", "lo"}});
  return {};
}

Result<std::string> Launch::write(const std::string& name, const std::string& text) const {
  const std::string path = folder->path() + "/" + name;
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return path;
  return system_failure("cannot write " + path);
}

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

// Healthy workers leave when their pipes close. A launcher is asked to end its ranks before it is
// killed.
WorkerGroup::~WorkerGroup() {
  commands_.clear();
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
}

Result<void> WorkerGroup::open_pipes() {
  const std::string& folder = launch_.folder->path();
  for (Rank rank = 0; rank < launch_.ranks; ++rank) {
    TALLY_TRY(commands_.emplace_back(), make_pipe(fmt::format("{}/in.{}", folder, rank)));
  }
  TALLY_TRY(answers_, make_pipe(folder + "/out"));
  return {};
}

Result<Answer> WorkerGroup::command(const std::string& line, Deadline by) {
  for (Rank rank = 0; rank < launch_.ranks; ++rank) {
    if (write_line(commands_[static_cast<std::size_t>(rank)], line)) continue;
    failed_ = true;
    return make_error(ErrorCode::kSystem, rank, "cannot command rank {}: {}", rank,
                      strerror(errno));
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
    if (next_line(line)) {
      std::istringstream words(line);
      std::string kind;
      Rank rank = kNoRank;
      words >> kind >> rank;
      if (kind == "failed") {
        return make_error(ErrorCode::kCorrupt, rank, "rank {}: {}", rank,
                          line.substr(line.find(' ') + 1));
      }
      awaited.erase(rank);
      if (kind == "ready" && rank == 0) std::getline(words >> std::ws, version_);
      if (kind == "done" && rank == 0) answer = parse_done(words);
      continue;
    }
    TALLY_TRY(processes_alive());
    TALLY_TRY(check_interrupted());
    if (by.passed(clock.now())) {
      return make_error(ErrorCode::kTimeout, *awaited.begin(), "no answer in time from ranks {}{}",
                        fmt::join(awaited, ", "), log_tail());
    }
  }
  failed_ = false;
  return answer;
}

bool WorkerGroup::next_line(std::string& line) {
  std::size_t end = unread_.find('\n');
  if (end == std::string::npos) {
    pollfd waiting{.fd = answers_.descriptor(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kPollMilliseconds) > 0) {
      std::array<char, 8192> bytes{};
      const ssize_t got = ::read(answers_.descriptor(), bytes.data(), bytes.size());
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
    return make_error(ErrorCode::kPeerLost, is_rank ? static_cast<Rank>(i) : kNoRank, "{} {}{}",
                      who, to_string(*status), log_tail());
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

Result<void> serve_commands(
    const std::string& folder, Rank rank, const std::string& version,
    const std::function<Result<std::string>(std::istream& words)>& execute) {
  const Descriptor out(::open((folder + "/out").c_str(), O_WRONLY | O_CLOEXEC));
  std::ifstream commands(fmt::format("{}/in.{}", folder, rank));
  if (!out.open() || !commands) return system_failure("no pipes in " + folder);
  bool heard = write_line(out, fmt::format("ready {} {}", rank, version));
  for (std::string line; heard && std::getline(commands, line);) {
    std::istringstream words(line);
    const auto done = execute(words);
    heard = write_line(out, done ? fmt::format("done {} {}", rank, *done)
                                 : fmt::format("failed {} {}", rank, to_string(done.error())));
    if (!done) return done.error();
  }
  if (heard) return {};
  return system_failure("the parent process is gone");
}

}  // namespace tally::bench
