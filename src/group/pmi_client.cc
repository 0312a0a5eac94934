#include "group/pmi_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/errors.h"
#include "group/pmi_message.h"
#include "net/socket.h"

namespace tally::group {
namespace {

// Time for the server to answer the finalize.
constexpr Duration kGoodbyeTime = std::chrono::seconds(1);

Error pmi_error(ErrorCode code, std::string_view what) {
  return make_error(code, "PMI server: {}", what);
}

class PmiClient {
 public:
  PmiClient(int descriptor, Deadline by) : descriptor_(descriptor), by_(by) {}

  Result<void> open() {
    TALLY_TRY(const PmiAnswer answer, ask("cmd=get_my_kvsname", "my_kvsname"));
    kvsname_ = answer.kvsname;
    if (kvsname_.empty()) return pmi_error(ErrorCode::kCorrupt, "no name of its store");
    return {};
  }

  Result<void> put(const std::string& key, const std::string& value) {
    TALLY_TRY(
        const PmiAnswer answer,
        ask(fmt::format("cmd=put kvsname={} key={} value={}", kvsname_, key, value), "put_result"));
    if (answer.code != 0) return pmi_error(ErrorCode::kSystem, answer.text);
    return {};
  }

  // The value of the key, or an empty text if the key is missing.
  Result<std::string> get(const std::string& key) {
    TALLY_TRY(PmiAnswer answer,
              ask(fmt::format("cmd=get kvsname={} key={}", kvsname_, key), "get_result"));
    return answer.code == 0 ? std::move(answer.value) : std::string();
  }

  // Values that were put before it are visible to all ranks after it.
  Result<void> barrier() {
    TALLY_TRY(ask("cmd=barrier_in", "barrier_out"));
    return {};
  }

  Result<void> finalize() {
    TALLY_TRY(ask("cmd=finalize", "finalize_ack"));
    return {};
  }

 private:
  Result<PmiAnswer> ask(const std::string& request, std::string_view expected) {
    TALLY_TRY(send(request + "\n"));
    TALLY_TRY(const std::string line, receive_line());
    TALLY_TRY(PmiAnswer answer, parse_pmi(line));
    if (answer.command != expected)
      return pmi_error(ErrorCode::kCorrupt,
                       fmt::format("{} instead of {}", answer.command, expected));
    return answer;
  }

  Result<void> send(const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      if (!net::wait_ready(descriptor_, net::Readiness::kWrite, by_))
        return pmi_error(ErrorCode::kTimeout, "takes no request");
      const ssize_t count =
          ::send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR)
        return net::socket_error("PMI server (PMI_FD)", errno);
      if (count > 0) sent += static_cast<std::size_t>(count);
    }
    return {};
  }

  Result<std::string> receive_line() {
    std::string line;
    std::array<char, 256> bytes;
    while (line.size() <= kMaxPmiBytes) {
      if (!net::wait_ready(descriptor_, net::Readiness::kRead, by_))
        return pmi_error(ErrorCode::kTimeout, "no answer; not all ranks came");
      const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
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

  const int descriptor_;
  const Deadline by_;
  std::string kvsname_;
};

}  // namespace

PmiSession::PmiSession(int descriptor)
    : connection_(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), owner_(getpid()) {}

PmiSession::~PmiSession() {
  // A fork of the process must not end the session. There is no answer if an MPI has ended it.
  if (connection_.open() && passes_ > 0 && getpid() == owner_)
    (void)PmiClient(connection_.descriptor(), Deadline::after(kGoodbyeTime)).finalize();
}

Result<std::string> PmiSession::pass(Rank rank, const std::string& note, Deadline by) {
  if (!connection_.open()) return pmi_error(ErrorCode::kInvalid, "PMI_FD is not open");
  PmiClient client(connection_.descriptor(), by);
  // A key can be put once only.
  const std::string key = fmt::format("tally-meet-{}", passes_++);
  TALLY_TRY(client.open());
  if (rank == 0) {
    TALLY_TRY(client.put(key, note));
  }
  TALLY_TRY(client.barrier());
  TALLY_TRY(std::string passed, client.get(key));
  if (passed.empty()) return pmi_error(ErrorCode::kCorrupt, "lost the note of rank 0");
  return passed;
}

Result<std::string> pass_note_by_pmi(int descriptor, Rank rank, const std::string& note,
                                     Deadline by) {
  static PmiSession ours(descriptor);
  return ours.pass(rank, note, by);
}

}  // namespace tally::group
