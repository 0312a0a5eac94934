#include "apps/tally/launch/agent_resources.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/errors.h"

namespace tally::launch {
namespace {

constexpr int kTries = 16;

// Binds a socket to `port` of every address of the family, or to any port if it is 0.
Descriptor bound(int family, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const bool is_v6 = family == AF_INET6;
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (is_v6) ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  const auto* const address =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (::bind(socket.descriptor(), address, is_v6 ? sizeof(v6) : sizeof(v4)) != 0) return {};
  return socket;
}

std::optional<std::uint16_t> port_of(const Descriptor& socket) {
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return std::nullopt;
  return ntohs(address.sin_port);
}

}  // namespace

Result<HeldPort> hold_port() {
  for (int tries = 0; tries < kTries; ++tries) {
    Descriptor v4 = bound(AF_INET, 0);
    if (!v4.open()) return system_failure("no free port: {}", strerror(errno));
    const auto port = port_of(v4);
    if (!port) return system_failure("no free port: {}", strerror(errno));
    Descriptor v6 = bound(AF_INET6, *port);
    // EADDRINUSE: the port is taken for IPv6 only, so try another one. Other errors: the host has
    // no IPv6.
    if (v6.open() || errno != EADDRINUSE) return HeldPort{std::move(v4), std::move(v6), *port};
  }
  return make_error(ErrorCode::kExhausted, "no port is free for IPv4 and IPv6");
}

Result<Descriptor> secret_in_memory(const Secret& secret) {
  Descriptor memory(::memfd_create("tally-secret", MFD_CLOEXEC));
  if (!memory.open()) return system_failure("no memory for the secret: {}", strerror(errno));
  const auto size = static_cast<ssize_t>(secret.bytes.size());
  if (::fchmod(memory.descriptor(), S_IRUSR | S_IWUSR) != 0 ||
      ::write(memory.descriptor(), secret.bytes.data(), secret.bytes.size()) != size)
    return system_failure("cannot keep the secret: {}", strerror(errno));
  return memory;
}

}  // namespace tally::launch
