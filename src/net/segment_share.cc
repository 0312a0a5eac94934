#include "net/segment_share.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket.h"

namespace tally::net {
namespace {

Error system_error(const char* what) {
  return {.code = ErrorCode::kSystem, .message = fmt::format("{}: {}", what, std::strerror(errno))};
}

// One message of eight bytes, with a descriptor beside it.
struct Parcel {
  std::uint64_t note = 0;
  iovec part{&note, sizeof(note)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  Parcel() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
};

Result<void> send_parcel(int socket, int memory, std::uint64_t note) {
  Parcel parcel;
  parcel.note = note;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &memory, sizeof(int));
  if (sendmsg(socket, &parcel.message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(note)))
    return system_error("passing the shared segment");
  return {};
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
    const Descriptor visitor(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.open()) continue;
    const auto pid = peer_of_same_user(visitor.descriptor());
    if (!pid.has_value()) continue;
    const auto who = std::find_if(waiting.begin(), waiting.end(),
                                  [&pid](const LocalPeer& peer) { return peer.pid == *pid; });
    if (who == waiting.end()) continue;
    TALLY_TRY(send_parcel(visitor.descriptor(), memory, note));
    waiting.erase(who);
  }
  return {};
}

Result<GivenSegment> take_segment(const std::string& name, const LocalPeer& owner, Deadline by) {
  auto connected = connect_locally(name);
  if (!connected.has_value()) {
    return Error{
        .code = ErrorCode::kPeerLost,
        .peer = owner.rank,
        .message = fmt::format("rank {} holds the shared segment and cannot be reached: {}",
                               owner.rank, connected.error().message)};
  }
  const Descriptor socket = *std::move(connected);
  TALLY_TRY(const pid_t pid, peer_of_same_user(socket.descriptor()));
  if (pid != owner.pid) {
    return Error{.code = ErrorCode::kRefused,
                 .peer = owner.rank,
                 .message = fmt::format("process {} gives the shared segment instead of {}", pid,
                                        owner.pid)};
  }
  Parcel parcel;
  const bool ready = wait_ready(socket.descriptor(), Readiness::kRead, by);
  if (!ready || recvmsg(socket.descriptor(), &parcel.message, MSG_CMSG_CLOEXEC) !=
                    static_cast<ssize_t>(sizeof(parcel.note))) {
    return Error{.code = ready ? ErrorCode::kPeerLost : ErrorCode::kTimeout,
                 .peer = owner.rank,
                 .message = fmt::format("rank {} did not give the shared segment", owner.rank)};
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return Error{
        .code = ErrorCode::kCorrupt, .peer = owner.rank, .message = "no descriptor came along"};
  int memory = -1;
  std::memcpy(&memory, CMSG_DATA(header), sizeof(int));
  return GivenSegment{Descriptor(memory), parcel.note};
}

Result<Descriptor> watch_process(const LocalPeer& peer) {
  Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  if (process.open()) return process;
  if (errno == ESRCH) {
    return Error{.code = ErrorCode::kPeerLost,
                 .peer = peer.rank,
                 .message = fmt::format("the process of rank {} has ended", peer.rank)};
  }
  return system_error("watching a peer's process (pidfd_open)");
}

}  // namespace tally::net
