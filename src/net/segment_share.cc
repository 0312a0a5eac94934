#include "net/segment_share.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
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

struct LocalAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

LocalAddress abstract_address(const std::string& name) {
  LocalAddress local;
  local.address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(local.address.sun_path) - 1);
  // A leading zero byte puts the name into the abstract namespace.
  std::memcpy(local.address.sun_path + 1, name.data(), length);
  local.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return local;
}

Result<pid_t> checked_peer(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return system_error("credentials of a local peer");
  if (credentials.uid != geteuid()) {
    return Error{.code = ErrorCode::kRefused,
                 .message = fmt::format("a local peer belongs to user {}, this process to {}",
                                        credentials.uid, geteuid())};
  }
  return credentials.pid;
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

Result<Descriptor> listen_locally(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const LocalAddress local = abstract_address(name);
  if (!socket.open() ||
      bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&local.address), local.bytes) !=
          0 ||
      listen(socket.descriptor(), SOMAXCONN) != 0)
    return system_error("local socket");
  return socket;
}

Result<void> give_segment(const Descriptor& listener, int memory, std::uint64_t note,
                          const std::vector<LocalPeer>& peers, Deadline by) {
  std::vector<LocalPeer> waiting = peers;
  while (!waiting.empty()) {
    if (!wait_ready(listener.descriptor(), Readiness::kRead, by)) return missing(waiting);
    const Descriptor visitor(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.open()) continue;
    const auto pid = checked_peer(visitor.descriptor());
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
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const LocalAddress local = abstract_address(name);
  if (!socket.open() ||
      connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&local.address),
              local.bytes) != 0) {
    return Error{
        .code = ErrorCode::kPeerLost,
        .peer = owner.rank,
        .message = fmt::format("rank {} holds the shared segment and cannot be reached: {}",
                               owner.rank, std::strerror(errno))};
  }
  TALLY_TRY(const pid_t pid, checked_peer(socket.descriptor()));
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
