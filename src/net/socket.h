#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::net {

// An IPv4 or IPv6 address or a host name, and a TCP port.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

// "127.0.0.1:29400", "[::1]:29400".
std::string to_string(const Address& address);

using Socket = Descriptor;

// One numeric address of a host name.
class Endpoint final {
 public:
  Endpoint(const void* sockaddr, std::size_t bytes);

  const void* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  int family() const;
  Address address() const;

 private:
  std::vector<std::byte> bytes_;  // a sockaddr_in or sockaddr_in6
};

// The endpoints of `address`, at least one. The system looks names up, which may take as long as
// its resolver is configured to; numeric addresses need no lookup.
Result<std::vector<Endpoint>> resolve(const Address& address);

// A listening socket on exactly the given address.
class Listener final {
 public:
  // Port 0: any free port. For a name the first address is bound.
  static Result<Listener> bind(const Address& at);

  // The bound address: numeric host, the real port.
  const Address& address() const { return address_; }
  int descriptor() const { return socket_.descriptor(); }

  // The next connection; kTimeout if none comes.
  Result<Socket> accept(Deadline by);
  // The next connection, or none if none is pending. Connections that the peer has already closed
  // are skipped; kExhausted if the process is out of descriptors.
  Result<std::optional<Socket>> accept_now();

 private:
  Listener(Socket socket, Address address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  Socket socket_;
  Address address_;
};

// kSystem, with the remedy, if `address` is on the loopback interface and that interface is down,
// as in a new network namespace. Listening works there, but no connection ever does.
Result<void> check_loopback(const Address& address);

// Tries each address of a name once. kTimeout, or kSystem with the reason of the last attempt.
Result<Socket> connect(const Address& to, Deadline by);
// As connect(), but retries until the peer listens. kTimeout has the reason of the last attempt;
// kSystem if the loopback interface is down.
Result<Socket> connect_retrying(const Address& to, Deadline by);

// Starts a connection. It is established, or has failed, when the socket becomes writable.
Result<Socket> start_connect(const Endpoint& to);
// The outcome of start_connect(), once the socket is writable.
Result<void> finish_connect(const Socket& socket, const Endpoint& to);

// The address of this side of a connection.
Result<Address> local_address(const Socket& socket);
// The address of the other side.
Result<Address> peer_address(const Socket& socket);
// Whether all endpoints of `address` are on the loopback interface.
bool on_loopback(const Address& address);

enum class Readiness { kRead, kWrite };
// Sleeps until the descriptor is ready, or broken, which the next call finds. False if `by` passes.
bool wait_ready(int descriptor, Readiness readiness, Deadline by);

// poll()'s timeout for `by`: milliseconds rounded up, -1 for never.
int poll_timeout(Deadline by);

// Whether this error of a read or write means that the peer, its host or the route to it is lost.
bool means_lost(int error_number);

// "what 127.0.0.1:29400: Connection refused", as kSystem (kExhausted where descriptors or memory
// ran out).
Error socket_error(const std::string& what, int error_number);

}  // namespace tally::net
