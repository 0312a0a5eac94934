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

// Where a process can be reached: an IPv4 or IPv6 address or a name, and a TCP port.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

// "127.0.0.1:29400", "[::1]:29400".
std::string to_string(const Address& address);

using Socket = Descriptor;

// One numeric address that a name stands for.
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

// What `address` stands for, at least one. A name is looked up by the system, which may take as
// long as the system's resolver is configured to; numbers are not looked up.
Result<std::vector<Endpoint>> resolve(const Address& address);

// A listening socket on exactly the address asked for.
class Listener final {
 public:
  // Port 0: any that is free. A name is bound by its first address.
  static Result<Listener> bind(const Address& at);

  // As bound: numeric host, the real port.
  const Address& address() const { return address_; }
  int descriptor() const { return socket_.descriptor(); }

  // The next connection; kTimeout if none comes.
  Result<Socket> accept(Deadline by);
  // The next connection, or none if nobody waits. A connection that its peer already gave up is
  // skipped; kExhausted if the process is out of descriptors.
  Result<std::optional<Socket>> accept_now();

 private:
  Listener(Socket socket, Address address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  Socket socket_;
  Address address_;
};

// Tries each address of a name once. kTimeout, or kSystem with the reason of the last.
Result<Socket> connect(const Address& to, Deadline by);
// As connect(), again and again while nobody listens there yet. kTimeout has the last reason.
Result<Socket> connect_retrying(const Address& to, Deadline by);

// Begins a connection; it is there, or has failed, when the socket becomes writable.
Result<Socket> start_connect(const Endpoint& to);
// How start_connect() ended, once the socket is writable.
Result<void> finish_connect(const Socket& socket, const Endpoint& to);

// The address of this side of a connection.
Result<Address> local_address(const Socket& socket);
// Of the other side.
Result<Address> peer_address(const Socket& socket);
// Whether all that `address` stands for is on this machine's loopback interface.
bool on_loopback(const Address& address);

enum class Readiness { kRead, kWrite };
// Sleeps until the descriptor is ready (or broken: the next call tells) or `by` passes: false then.
bool wait_ready(int descriptor, Readiness readiness, Deadline by);

// poll()'s timeout for `by`: milliseconds rounded up, -1 for never.
int poll_timeout(Deadline by);

// Whether a failed read or write means that the peer, its host or the way there is gone.
bool means_lost(int error_number);

// "what 127.0.0.1:29400: Connection refused", as kSystem (kExhausted where descriptors or memory
// ran out).
Error socket_error(const std::string& what, int error_number);

}  // namespace tally::net
