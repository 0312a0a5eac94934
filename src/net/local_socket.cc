#include "net/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/errors.h"
#include "net/socket.h"

namespace tally::net {
namespace {

struct LocalAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;

  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&address); }
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

}  // namespace

Result<Descriptor> listen_locally(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const LocalAddress local = abstract_address(name);
  if (socket.open() && ::bind(socket.descriptor(), local.pointer(), local.bytes) == 0 &&
      ::listen(socket.descriptor(), SOMAXCONN) == 0)
    return socket;
  if (errno == EADDRINUSE) {
    return make_error(ErrorCode::kRefused, "the local socket {} is taken by another process", name);
  }
  return socket_error("local socket", errno);
}

Result<Descriptor> connect_locally(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const LocalAddress local = abstract_address(name);
  if (!socket.open() || ::connect(socket.descriptor(), local.pointer(), local.bytes) != 0)
    return socket_error("local socket", errno);
  return socket;
}

Result<pid_t> peer_of_same_user(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return socket_error("credentials of a local peer", errno);
  if (credentials.uid != geteuid()) {
    return make_error(ErrorCode::kRefused, "a local peer belongs to user {}, this process to {}",
                      credentials.uid, geteuid());
  }
  return credentials.pid;
}

}  // namespace tally::net
