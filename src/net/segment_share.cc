#include "net/segment_share.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errors.h"
#include "net/stream.h"

namespace tally::net {
namespace {

Error share_error(const char* what) {
  return {.code = ErrorCode::kSystem, .message = fmt::format("{}: {}", what, std::strerror(errno))};
}

Error missing(const std::vector<LocalPeer>& waiting) {
  return {.code = ErrorCode::kTimeout,
          .peer = waiting.front().rank,
          .message = fmt::format("rank {} did not fetch the shared segment", waiting.front().rank)};
}

}  // namespace

Result<void> give_segment(const Descriptor& listener, int memory, std::uint64_t note,
                          const std::vector<LocalPeer>& peers, Deadline by) {
  std::vector<LocalPeer> waiting = peers;
  while (!waiting.empty()) {
    if (!wait_ready(listener.descriptor(), Readiness::kRead, by)) return missing(waiting);
    Descriptor caller(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.open()) continue;
    const auto pid = peer_of_same_user(caller.descriptor());
    if (!pid.has_value()) continue;
    const auto who = std::find_if(waiting.begin(), waiting.end(),
                                  [&pid](const LocalPeer& peer) { return peer.pid == *pid; });
    if (who == waiting.end()) continue;
    iovec part{&note, sizeof(note)};
    const auto stream = local_stream(std::move(caller));
    if (stream->write_with({&part, 1}, memory).bytes != sizeof(note))
      return share_error("passing the shared segment");
    waiting.erase(who);
  }
  return {};
}

Result<GivenSegment> take_segment(const std::string& name, const LocalPeer& owner, Deadline by) {
  auto connected = connect_locally(name);
  if (!connected.has_value()) {
    return make_error(ErrorCode::kPeerLost, owner.rank,
                      "rank {} holds the shared segment and cannot be reached: {}", owner.rank,
                      connected.error().message);
  }
  Descriptor socket = *std::move(connected);
  TALLY_TRY(const pid_t pid, peer_of_same_user(socket.descriptor()));
  if (pid != owner.pid) {
    return make_error(ErrorCode::kRefused, owner.rank,
                      "process {} gives the shared segment instead of {}", pid, owner.pid);
  }
  const auto stream = local_stream(std::move(socket));
  GivenSegment given;
  iovec part{&given.note, sizeof(given.note)};
  const bool ready = wait_ready(stream->descriptor(), Readiness::kRead, by);
  if (!ready || stream->read({&part, 1}).bytes != sizeof(given.note)) {
    return make_error(ready ? ErrorCode::kPeerLost : ErrorCode::kTimeout, owner.rank,
                      "rank {} did not give the shared segment", owner.rank);
  }
  given.memory = stream->take_descriptor();
  if (!given.memory.open())
    return make_error(ErrorCode::kCorrupt, owner.rank, "no descriptor came");
  return given;
}

Result<Descriptor> watch_process(const LocalPeer& peer) {
  Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  if (process.open()) return process;
  if (errno == ESRCH) {
    return make_error(ErrorCode::kPeerLost, peer.rank, "the process of rank {} has ended",
                      peer.rank);
  }
  return share_error("watching a peer's process (pidfd_open)");
}

}  // namespace tally::net
