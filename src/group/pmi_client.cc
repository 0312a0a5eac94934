#include "group/pmi_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/errors.h"
#include "base/option_text.h"
#include "net/socket.h"

namespace tally::group {
namespace {

// Time for the server to answer the finalize.
constexpr Duration kGoodbyeTime = std::chrono::seconds(1);

Error pmi_error(ErrorCode code, std::string_view what) {
  return make_error(code, "PMI server: {}", what);
}

Result<void> take_word(std::string_view name, std::string_view value, PmiAnswer& answer) {
  if (name == "cmd") {
    answer.command = value;
  } else if (name == "msg") {
    answer.text = value;
  } else if (name == "kvsname") {
    answer.kvsname = value;
  } else if (name == "value") {
    answer.value = value;
  } else if (name == "rc") {
    const auto code = parse_as<int>(value);
    if (!code) return pmi_error(ErrorCode::kCorrupt, "a result that is no number");
    answer.code = *code;
  }
  // Other words are ignored.
  return {};
}

Result<void> send_text(int descriptor, const std::string& text, Deadline by) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    if (!net::wait_ready(descriptor, net::Readiness::kWrite, by))
      return pmi_error(ErrorCode::kTimeout, "takes no request");
    const ssize_t count =
        ::send(descriptor, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR)
      return net::socket_error("PMI server (PMI_FD)", errno);
    if (count > 0) sent += static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::string> receive_line(int descriptor, Deadline by) {
  std::string line;
  std::array<char, 256> bytes;
  while (line.size() <= kMaxPmiBytes) {
    if (!net::wait_ready(descriptor, net::Readiness::kRead, by))
      return pmi_error(ErrorCode::kTimeout, "no answer; not all ranks came");
    const ssize_t count = ::recv(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return net::socket_error("PMI server (PMI_FD)", errno);
    if (count == 0) return pmi_error(ErrorCode::kPeerLost, "closed its connection");
    line.append(bytes.data(), static_cast<std::size_t>(count));
    const std::size_t end = line.find('\n');
    if (end == std::string::npos) continue;
    // The server only answers requests, so there is one line.
    if (end + 1 != line.size()) break;
    line.pop_back();
    return line;
  }
  return pmi_error(ErrorCode::kCorrupt, "more than one line in its answer");
}

Result<PmiAnswer> ask(int descriptor, const std::string& request, std::string_view expected,
                      Deadline by) {
  TALLY_TRY(send_text(descriptor, request + "\n", by));
  TALLY_TRY(const std::string line, receive_line(descriptor, by));
  TALLY_TRY(PmiAnswer answer, parse_pmi(line));
  if (answer.command != expected)
    return pmi_error(ErrorCode::kCorrupt,
                     fmt::format("{} instead of {}", answer.command, expected));
  return answer;
}

}  // namespace

Result<PmiAnswer> parse_pmi(std::string_view line) {
  if (line.size() > kMaxPmiBytes) return pmi_error(ErrorCode::kCorrupt, "too long a line");
  PmiAnswer answer;
  while (!line.empty()) {
    const std::size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos || sign == 0)
      return pmi_error(ErrorCode::kCorrupt, "a word without a name");
    TALLY_TRY(take_word(word.substr(0, sign), word.substr(sign + 1), answer));
  }
  if (answer.command.empty()) return pmi_error(ErrorCode::kCorrupt, "no command in its line");
  return answer;
}

PmiSession::PmiSession(int descriptor)
    : connection_(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), owner_(getpid()) {}

PmiSession::~PmiSession() {
  // A fork of the process must not end the session. There is no answer if an MPI has ended it.
  if (connection_.open() && passes_ > 0 && getpid() == owner_)
    (void)ask(connection_.descriptor(), "cmd=finalize", "finalize_ack",
              Deadline::after(kGoodbyeTime));
}

Result<std::string> PmiSession::pass(Rank rank, const std::string& note, Deadline by) {
  if (!connection_.open()) return pmi_error(ErrorCode::kInvalid, "PMI_FD is not open");
  const int server = connection_.descriptor();
  // A key can be put once only.
  const std::string key = fmt::format("tally-meet-{}", passes_++);
  TALLY_TRY(const PmiAnswer store, ask(server, "cmd=get_my_kvsname", "my_kvsname", by));
  if (store.kvsname.empty()) return pmi_error(ErrorCode::kCorrupt, "no name of its store");
  if (rank == 0) {
    TALLY_TRY(
        const PmiAnswer put,
        ask(server, fmt::format("cmd=put kvsname={} key={} value={}", store.kvsname, key, note),
            "put_result", by));
    if (put.code != 0) return pmi_error(ErrorCode::kSystem, put.text);
  }
  // Values that were put before the barrier are visible to all ranks after it.
  TALLY_TRY(ask(server, "cmd=barrier_in", "barrier_out", by));
  TALLY_TRY(PmiAnswer got, ask(server, fmt::format("cmd=get kvsname={} key={}", store.kvsname, key),
                               "get_result", by));
  if (got.code != 0 || got.value.empty())
    return pmi_error(ErrorCode::kCorrupt, "lost the note of rank 0");
  return std::move(got.value);
}

Result<std::string> pass_note_by_pmi(int descriptor, Rank rank, const std::string& note,
                                     Deadline by) {
  static PmiSession ours(descriptor);
  return ours.pass(rank, note, by);
}

}  // namespace tally::group
