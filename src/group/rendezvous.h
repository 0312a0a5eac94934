#pragma once
#include <functional>
#include <optional>

#include "group/bodies.h"
#include "net/socket.h"
#include "tally/deadline.h"

namespace tally::group {

struct RendezvousOptions {
  Hello hello;                   // of this rank
  wire::JobToken token{};        // of the job; all zero before the first rendezvous
  std::optional<Secret> secret;  // set: TLS
  Rank host = 0;                 // the rank that hosts the rendezvous
  net::Address at;               // its address; unused by the host itself
};

// Connects this rank with the members.
using Connect = std::function<Result<void>(const Welcome&)>;

// Brings the ranks together: every rank presents itself to the host, receives the members, connects
// with them by `connect`, and reports the outcome to the host. The rendezvous succeeds only if all
// ranks could connect, and every rank gets the same outcome.

// For the host.
Result<Welcome> host_rendezvous(net::Listener& listener, const RendezvousOptions& options,
                                const Connect& connect, Deadline by);
// For all other ranks. `introduce` is called once the host is reached, before the hello is sent: it
// may complete the hello with the address from which this rank reached the host.
Result<Welcome> join_rendezvous(
    RendezvousOptions options,
    const std::function<Result<void>(const net::Address& local_address, Hello& hello)>& introduce,
    const Connect& connect, Deadline by);

}  // namespace tally::group
