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

#include <fmt/format.h>

#include "base/clock.h"
#include "base/errors.h"
#include "net/socket.h"
#include "process/child_process.h"

namespace tally::launch {
namespace {

// Time for a process to exit after its pipe has ended, so that its exit code can be reported.
constexpr auto kEndTime = std::chrono::milliseconds(500);
constexpr int kLookMilliseconds = 2;

// Runs between fork() and exec. The child gets a session of its own, so that Ctrl-C reaches only
// the launcher.
[[noreturn]] void become(const char* program, char* const* arguments,
                         const std::array<int, 3>& streams, pid_t parent) {
  ::setsid();
  // An agent ends when its stdin does. A remote shell needs a signal.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  process::restore_signals();
  process::connect_streams(streams);
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
  if (!path) return system_failure("no program {} to reach {} with", words[0], place.host);
  TALLY_TRY(process::Pipe input, process::make_pipe());
  TALLY_TRY(process::Pipe output, process::make_pipe());
  TALLY_TRY(process::Pipe errors, process::make_pipe());
  const std::vector<char*> arguments = process::pointers_to(words);
  const std::array streams = {input.read.descriptor(), output.write.descriptor(),
                              errors.write.descriptor()};
  const pid_t parent = ::getpid();
  link->pid_ = ::fork();
  if (link->pid_ == 0) become(path->c_str(), arguments.data(), streams, parent);
  if (link->pid_ < 0) {
    link->reaped_ = true;
    return make_error(ErrorCode::kExhausted, "cannot start {}: {}", words[0], strerror(errno));
  }
  for (const Descriptor* end : {&input.write, &output.read, &errors.read})
    process::make_non_blocking(*end);
  link->errors_ = std::move(errors.read);
  // A few reads at a time, so that all hosts have their turn.
  link->connection_ = std::make_unique<net::MessageConnection>(
      net::pipe_stream(std::move(output.read), std::move(input.write)),
      net::MessageConnection::Options{.framing = wire::Framing::kLengthPrefix,
                                      .max_unsent_bytes = 2 * wire::kMaxPrefixedBytes,
                                      .max_reads = 4,
                                      .preamble = kPreamble});
  link->heard_ = steady_now();
  return link;
}

AgentLink::~AgentLink() {
  close();
  kill();
}

void AgentLink::forgive_silence() { heard_ = steady_now(); }

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
  while (!reap() && !by.passed(steady_now())) ::poll(nullptr, 0, kLookMilliseconds);
  return reaped_;
}

void AgentLink::send(const Message& message) {
  connection_->send(encode(message));
  connection_->flush();
}

void AgentLink::add_to(std::vector<pollfd>& entries, bool read) const {
  if (open_) connection_->add_to(entries, read);
  if (errors_.open())
    entries.push_back({.fd = errors_.descriptor(), .events = POLLIN, .revents = 0});
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

Result<void> AgentLink::exchange(bool read, const std::function<void(const Message&)>& take) {
  read_errors();
  if (!read) {
    connection_->flush();
    forgive_silence();
  }
  if (!read || !open_) return {};
  const std::uint64_t before = connection_->received_bytes();
  const auto payloads = connection_->advance();
  if (connection_->received_bytes() != before) heard_ = steady_now();
  if (!payloads.has_value()) {
    const bool ended = payloads.error().code == ErrorCode::kPeerLost;
    return lost(ended ? "its connection ended" : payloads.error().message);
  }
  for (const auto& payload : *payloads) {
    Message message;
    if (const auto decoded = decode(payload, message); !decoded)
      return lost(decoded.error().message);
    take(message);
  }
  return {};
}

Error AgentLink::lost(const std::string& why) {
  open_ = false;
  close();
  std::string text = why;
  if (ended_by(deadline_after(steady_now(), kEndTime))) {
    text = fmt::format("{}, {} {}", text, program_, to_string(process::exit_status(status_)));
  }
  read_errors();
  last_words_.add(connection_->noise().substr(0, 200));
  for (const std::string& line : last_words_.last(20)) text += "\n  | " + line;
  return {.code = ErrorCode::kPeerLost, .message = std::move(text)};
}

}  // namespace tally::launch
