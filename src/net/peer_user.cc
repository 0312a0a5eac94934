#include "net/peer_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/descriptor.h"
#include "base/errors.h"
#include "net/socket.h"

namespace tally::net {
namespace {

// One side of a connection.
struct Side {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);

  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&storage); }

  // Copies address and port, in network byte order.
  void copy_to(__be32 (&address)[4], __be16& port) const {
    if (storage.ss_family == AF_INET) {
      sockaddr_in v4{};
      std::memcpy(&v4, &storage, sizeof(v4));
      std::memcpy(address, &v4.sin_addr, sizeof(v4.sin_addr));
      port = v4.sin_port;
    } else {
      sockaddr_in6 v6{};
      std::memcpy(&v6, &storage, sizeof(v6));
      std::memcpy(address, &v6.sin6_addr, sizeof(v6.sin6_addr));
      port = v6.sin6_port;
    }
  }
};

struct DiagRequest {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

struct SocketOwner {
  uid_t user = 0;
  bool open = false;     // a process has it; the kernel may show user 0 for other sockets
  bool awaited = false;  // not open: its listener has not accepted it yet
  bool listens = false;
};

// The owner of the TCP socket of this network namespace that is at `local` and connected with
// `remote`, or that listens at `local` where there is no such connection. None if there is neither,
// or the kernel does not tell.
std::optional<SocketOwner> socket_owner(const Side& local, const Side& remote) {
  const Descriptor netlink(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!netlink.open()) return std::nullopt;
  DiagRequest request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<std::uint8_t>(local.storage.ss_family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  inet_diag_sockid& id = request.body.id;
  local.copy_to(id.idiag_src, id.idiag_sport);
  remote.copy_to(id.idiag_dst, id.idiag_dport);
  id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(netlink.descriptor(), &request, sizeof(request), 0) < 0) return std::nullopt;
  // The kernel answers within send().
  std::array<std::byte, 4096> answer;
  const ssize_t count = ::recv(netlink.descriptor(), answer.data(), answer.size(), 0);
  constexpr std::size_t kBodyAt = NLMSG_HDRLEN;
  if (count < static_cast<ssize_t>(kBodyAt + sizeof(inet_diag_msg))) return std::nullopt;
  nlmsghdr header{};
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg found{};
  std::memcpy(&found, answer.data() + kBodyAt, sizeof(found));
  const bool open = found.idiag_inode != 0;
  const bool connected = found.idiag_state == TCP_ESTABLISHED || found.idiag_state == TCP_SYN_RECV;
  return SocketOwner{.user = found.idiag_uid,
                     .open = open,
                     .awaited = connected && !open,
                     .listens = found.idiag_state == TCP_LISTEN};
}

// Connections inside a machine have loopback addresses, or the same address on both sides.
bool is_on_this_machine(const Side& peer, const Side& own) {
  if (peer.storage.ss_family == AF_INET) {
    const in_addr_t address = reinterpret_cast<const sockaddr_in&>(peer.storage).sin_addr.s_addr;
    return (ntohl(address) >> 24) == 127 ||
           address == reinterpret_cast<const sockaddr_in&>(own.storage).sin_addr.s_addr;
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer.storage).sin6_addr;
  const in6_addr& own_address = reinterpret_cast<const sockaddr_in6&>(own.storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         std::memcmp(&address, &own_address, sizeof(address)) == 0;
}

// The other end of the connection `own` to `peer`. A connection that waits to be accepted belongs
// to no process yet; only the owner of its listener can accept it.
std::optional<SocketOwner> owner_of_peer(const Side& peer, const Side& own) {
  const auto owner = socket_owner(peer, own);
  // A listener on all addresses matches every address, also one of another host.
  if (owner && owner->listens && !is_on_this_machine(peer, own)) return std::nullopt;
  if (!owner || !owner->awaited) return owner;
  Side anyone;
  anyone.storage.ss_family = peer.storage.ss_family;
  return socket_owner(peer, anyone);
}

}  // namespace

Result<PeerUser> check_peer_user(int socket) {
  Side own;
  Side peer;
  if (::getsockname(socket, own.pointer(), &own.bytes) != 0)
    return socket_error("own address", errno);
  if (::getpeername(socket, peer.pointer(), &peer.bytes) != 0)
    return make_error(ErrorCode::kPeerLost, "it has closed the connection");
  const auto owner = owner_of_peer(peer, own);
  if (!owner) {
    // This side exists, so it shows whether the kernel answers at all.
    if (!socket_owner(own, peer)) return PeerUser::kUnknown;
    if (!on_loopback(Endpoint(&peer.storage, peer.bytes).address()))
      return PeerUser::kOnAnotherHost;
  }
  if (!owner || !owner->open)
    return make_error(ErrorCode::kPeerLost, "it has closed the connection");
  if (owner->user == geteuid()) return PeerUser::kSame;
  return make_error(ErrorCode::kRefused,
                    "it belongs to user {}, and without a secret user {} trusts no other user of "
                    "this machine: give the job a secret, or use another port",
                    owner->user, geteuid());
}

}  // namespace tally::net
