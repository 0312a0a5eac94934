#include "net/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"

namespace tally::net {
namespace {

// Enough for every rank of a large job to arrive at once; the kernel caps it at somaxconn.
constexpr int kBacklog = 4096;
constexpr Duration kSocketFirstPause = std::chrono::milliseconds(5);
constexpr Duration kSocketLongestPause = std::chrono::milliseconds(250);

const sockaddr* as_sockaddr(const Endpoint& endpoint) {
  return static_cast<const sockaddr*>(endpoint.data());
}

// Small frames must not wait for the acknowledgement of earlier ones.
void send_without_delay(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Result<Address> bound_address(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return socket_error("getsockname", errno);
  }
  return Endpoint(&storage, length).address();
}

// Errors of accept() that belong to a connection that failed before it was accepted (accept(2),
// "Error handling"), not to the listener.
bool belongs_to_the_connection(int error_number) {
  switch (error_number) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string to_string(const Address& address) {
  if (address.host.find(':') != std::string::npos) {
    return fmt::format("[{}]:{}", address.host, address.port);
  }
  return fmt::format("{}:{}", address.host, address.port);
}

Error socket_error(const std::string& what, int error_number) {
  const bool exhausted = error_number == EMFILE || error_number == ENFILE ||
                         error_number == ENOBUFS || error_number == ENOMEM;
  return make_error(exhausted ? ErrorCode::kExhausted : ErrorCode::kSystem, "{}: {}", what,
                    std::generic_category().message(error_number));
}

Endpoint::Endpoint(const void* sockaddr, std::size_t bytes) : bytes_(bytes) {
  std::memcpy(bytes_.data(), sockaddr, bytes);
}

int Endpoint::family() const {
  sockaddr_in head{};
  std::memcpy(&head, bytes_.data(), std::min(bytes_.size(), sizeof(head)));
  return head.sin_family;
}

Address Endpoint::address() const {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  const int outcome =
      ::getnameinfo(as_sockaddr(*this), static_cast<socklen_t>(size()), host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  if (outcome != 0) return {};
  return {.host = host, .port = static_cast<std::uint16_t>(std::stoi(port))};
}

Result<std::vector<Endpoint>> resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int outcome = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  if (outcome != 0) {
    return system_failure("look up {}: {}", to_string(address), ::gai_strerror(outcome));
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    endpoints.emplace_back(each->ai_addr, each->ai_addrlen);
  }
  if (endpoints.empty()) {
    return system_failure("look up {}: no IPv4 or IPv6 address", to_string(address));
  }
  return endpoints;
}

Result<Listener> Listener::bind(const Address& at) {
  TALLY_TRY(const std::vector<Endpoint> endpoints, resolve(at));
  const Endpoint& endpoint = endpoints.front();
  const std::string what = fmt::format("listen on {}", to_string(at));
  Socket socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return socket_error(what, errno);
  const int on = 1;
  // A restarted job gets its port back while old connections are in TIME_WAIT; on Linux this does
  // not allow two listeners.
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (endpoint.family() == AF_INET6) {
    ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (::bind(socket.descriptor(), as_sockaddr(endpoint), static_cast<socklen_t>(endpoint.size())) !=
          0 ||
      ::listen(socket.descriptor(), kBacklog) != 0) {
    return socket_error(what, errno);
  }
  TALLY_TRY(Address bound, bound_address(socket.descriptor()));
  return Listener(std::move(socket), std::move(bound));
}

Result<std::optional<Socket>> Listener::accept_now() {
  while (true) {
    Socket socket(::accept4(descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      send_without_delay(socket.descriptor());
      return std::optional<Socket>(std::move(socket));
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Socket>();
    if (!belongs_to_the_connection(errno)) {
      return socket_error(fmt::format("accept on {}", to_string(address_)), errno);
    }
  }
}

Result<Socket> Listener::accept(Deadline by) {
  while (true) {
    TALLY_TRY(std::optional<Socket> socket, accept_now());
    if (socket) return *std::move(socket);
    if (!wait_ready(descriptor(), Readiness::kRead, by)) {
      return make_error(ErrorCode::kTimeout, "nobody connected to {}", to_string(address_));
    }
  }
}

Result<Socket> start_connect(const Endpoint& to) {
  Socket socket(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto failed = [&] {
    return socket_error(fmt::format("connect to {}", to_string(to.address())), errno);
  };
  if (!socket.open()) return failed();
  send_without_delay(socket.descriptor());
  while (::connect(socket.descriptor(), as_sockaddr(to), static_cast<socklen_t>(to.size())) != 0) {
    if (errno == EINPROGRESS) break;
    if (errno != EINTR) return failed();
  }
  return socket;
}

Result<void> finish_connect(const Socket& socket, const Endpoint& to) {
  int reason = 0;
  socklen_t length = sizeof(reason);
  if (::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &reason, &length) != 0) {
    reason = errno;
  }
  if (reason == 0) return {};
  return socket_error(fmt::format("connect to {}", to_string(to.address())), reason);
}

Result<Socket> connect(const Address& to, Deadline by) {
  TALLY_TRY(const std::vector<Endpoint> endpoints, resolve(to));
  Error last;
  for (const Endpoint& endpoint : endpoints) {
    auto socket = start_connect(endpoint);
    if (!socket) {
      last = std::move(socket).error();
      continue;
    }
    if (!wait_ready(socket->descriptor(), Readiness::kWrite, by)) {
      return make_error(ErrorCode::kTimeout, "connect to {}: no answer", to_string(to));
    }
    const auto outcome = finish_connect(*socket, endpoint);
    if (outcome) return socket;
    last = outcome.error();
  }
  return last;
}

Result<void> check_loopback(const Address& address) {
  if (!on_loopback(address)) return {};
  TALLY_TRY(const std::vector<Endpoint> endpoints, resolve(address));
  const Endpoint& endpoint = endpoints.front();
  // Connecting a datagram socket finds the route and sends nothing.
  const Socket probe(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.open() || ::connect(probe.descriptor(), as_sockaddr(endpoint),
                                 static_cast<socklen_t>(endpoint.size())) == 0)
    return {};
  if (errno != ENETUNREACH && errno != EADDRNOTAVAIL) return {};
  return system_failure("the loopback interface is down: `ip link set lo up` starts it");
}

Result<Socket> connect_retrying(const Address& to, Deadline by) {
  TALLY_TRY(check_loopback(to));
  Duration pause = kSocketFirstPause;
  while (true) {
    auto socket = connect(to, by);
    if (socket || socket.error().code != ErrorCode::kSystem) return socket;
    if (by.passed(steady_now())) {
      return Error{.code = ErrorCode::kTimeout, .message = std::move(socket).error().message};
    }
    const Deadline next = earlier(by, deadline_after(steady_now(), pause));
    ::poll(nullptr, 0, poll_timeout(next));
    pause = std::min(2 * pause, kSocketLongestPause);
  }
}

Result<Address> local_address(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&storage), &bytes) != 0)
    return socket_error("own address", errno);
  return Endpoint(&storage, bytes).address();
}

Result<Address> peer_address(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (::getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&storage), &bytes) != 0)
    return socket_error("the peer's address", errno);
  return Endpoint(&storage, bytes).address();
}

bool on_loopback(const Address& address) {
  const auto endpoints = resolve(address);
  if (!endpoints.has_value()) return false;
  return std::all_of(endpoints->begin(), endpoints->end(), [](const Endpoint& endpoint) {
    const std::string host = endpoint.address().host;
    return host == "::1" || host.rfind("127.", 0) == 0;
  });
}

bool means_lost(int error_number) {
  switch (error_number) {
    case EPIPE:
    case ECONNRESET:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
      return true;
    default:
      return false;
  }
}

int poll_timeout(Deadline by) {
  const Duration left = by.remaining(steady_now());
  if (left == Duration::max()) return -1;
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<decltype(rounded)>(rounded, std::numeric_limits<int>::max()));
}

bool wait_ready(int descriptor, Readiness readiness, Deadline by) {
  pollfd entry{.fd = descriptor,
               .events = static_cast<short>(readiness == Readiness::kRead ? POLLIN : POLLOUT),
               .revents = 0};
  while (true) {
    const int ready = ::poll(&entry, 1, poll_timeout(by));
    if (ready > 0) return true;
    if (ready < 0) TALLY_CHECK(errno == EINTR || errno == ENOMEM);
    if (by.passed(steady_now())) return false;
  }
}

}  // namespace tally::net
