#include "apps/tally/launch/agent_link.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "apps/tally/launch/rank_process.h"
#include "base/clock.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::launch {
namespace {

// What a login shell may say before the agent does.
constexpr std::size_t kMaxNoiseBytes = std::size_t{64} << 10;
// For a process whose pipe has ended to be gone, so that its exit code can be told.
constexpr auto kEndTime = std::chrono::milliseconds(500);
constexpr int kLookMilliseconds = 2;

TimePoint now() { return SteadyClock().now(); }

// Everything between fork() and exec. In a session of its own: Ctrl-C is for the launcher alone.
[[noreturn]] void become(const char* program, char* const* arguments,
                         const std::array<int, 3>& streams, pid_t parent) {
  ::setsid();
  // An agent ends when its stdin does; a remote shell needs to be told.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  restore_signals();
  for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
  ::execv(program, arguments);
  ::_exit(1);
}

}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::start(const HostRanks& place,
                                                    const std::vector<std::string>& command,
                                                    const std::string& own) {
  std::unique_ptr<AgentLink> link(new AgentLink(place, !command.empty()));
  std::vector<std::string> words = command;
  if (words.empty()) words = {"tally", "host-agent"};
  link->program_ = words.front();
  const auto path = command.empty()
                        ? std::optional<std::string>(own.empty() ? "/proc/self/exe" : own)
                        : process::find_program(words.front());
  if (!path)
    return Error{.code = ErrorCode::kSystem,
                 .message = fmt::format("no program {} to reach {} with", words[0], place.host)};
  TALLY_TRY(Pipe input, make_pipe());
  TALLY_TRY(Pipe output, make_pipe());
  TALLY_TRY(Pipe errors, make_pipe());
  const std::vector<char*> arguments = pointers_to(words);
  const std::array streams = {input.read.descriptor(), output.write.descriptor(),
                              errors.write.descriptor()};
  const pid_t parent = ::getpid();
  link->pid_ = ::fork();
  if (link->pid_ == 0) become(path->c_str(), arguments.data(), streams, parent);
  if (link->pid_ < 0) {
    link->reaped_ = true;
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("cannot start {}: {}", words[0], strerror(errno))};
  }
  link->input_ = std::move(input.write);
  link->output_ = std::move(output.read);
  link->errors_ = std::move(errors.read);
  for (const Descriptor* end : {&link->input_, &link->output_, &link->errors_})
    make_non_blocking(*end);
  link->heard_ = now();
  return link;
}

AgentLink::~AgentLink() {
  close();
  kill();
}

void AgentLink::forgive_silence() { heard_ = now(); }

void AgentLink::kill() {
  if (reap()) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

bool AgentLink::reap() {
  reaped_ = reaped_ || ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

bool AgentLink::ended_by(Deadline by) {
  while (!reap() && !by.passed(now())) ::poll(nullptr, 0, kLookMilliseconds);
  return reaped_;
}

void AgentLink::send(const Message& message) {
  if (!input_.open()) return;
  const std::vector<std::byte> bytes = encode(message);
  waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
  write();
}

void AgentLink::write() {
  std::size_t written = 0;
  while (input_.open() && written < waiting_.size()) {
    const ssize_t count =
        ::write(input_.descriptor(), waiting_.data() + written, waiting_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) {
      input_.reset();  // it has ended, as its stdout will tell
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(written));
}

void AgentLink::add_to(std::vector<pollfd>& entries, bool read) const {
  const auto add = [&entries](const Descriptor& end, short events) {
    if (end.open()) entries.push_back({.fd = end.descriptor(), .events = events, .revents = 0});
  };
  if (!waiting_.empty()) add(input_, POLLOUT);
  if (read) add(output_, POLLIN);
  add(errors_, POLLIN);
}

void AgentLink::read_errors() {
  std::array<char, 4096> bytes;
  while (errors_.open()) {
    const ssize_t count = ::read(errors_.descriptor(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return errors_.reset();
    last_words_.add({bytes.data(), static_cast<std::size_t>(count)});
  }
}

// Takes the bytes up to the preamble out of before_; what follows it are messages.
bool AgentLink::find_preamble() {
  const std::size_t at = before_.find(kPreamble);
  if (at == std::string::npos) return false;
  introduced_ = true;
  const std::string_view rest = std::string_view(before_).substr(at + kPreamble.size());
  incoming_.add(std::as_bytes(std::span(rest)));
  before_.clear();
  return true;
}

// One read; whether there may be more.
Result<bool> AgentLink::read_messages() {
  std::array<char, 65536> bytes;
  const ssize_t count = ::read(output_.descriptor(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  if (count <= 0) return lost("its connection ended");
  heard_ = now();
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  if (introduced_) {
    incoming_.add(std::as_bytes(std::span(text)));
    return true;
  }
  before_ += text;
  if (!find_preamble() && before_.size() > kMaxNoiseBytes)
    return lost("it says something else than an agent would");
  return true;
}

Result<void> AgentLink::exchange(bool read, const std::function<void(const Message&)>& take) {
  write();
  read_errors();
  if (!read) forgive_silence();
  // One read at a time, so that all hosts have their turn.
  if (!read || !output_.open()) return {};
  TALLY_TRY(read_messages());
  for (;;) {
    Message message;
    const auto there = incoming_.next(message);
    if (!there) return lost(there.error().message);
    if (!*there) return {};
    take(message);
  }
}

Error AgentLink::lost(const std::string& why) {
  output_.reset();
  close();
  std::string text = why;
  if (ended_by(deadline_after(now(), kEndTime))) {
    const process::ExitStatus status{.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 0,
                                     .signal = WIFSIGNALED(status_) ? WTERMSIG(status_) : 0};
    text = fmt::format("{}, {} {}", text, program_, to_string(status));
  }
  read_errors();
  last_words_.add(before_.substr(0, 200));
  for (const std::string& line : last_words_.last(20)) text += "\n  | " + line;
  return {.code = ErrorCode::kPeerLost, .message = std::move(text)};
}

}  // namespace tally::launch
