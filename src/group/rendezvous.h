#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "group/bodies.h"
#include "net/socket.h"
#include "tally/deadline.h"

namespace tally::group {

struct RendezvousOptions {
  Hello hello;                   // of this rank
  wire::JobToken token{};        // of the job; all zero before the first rendezvous
  std::optional<Secret> secret;  // set: TLS
  Rank host = 0;                 // the rank that the others come to
  net::Address at;               // guests: where it listens
};

// Forms this rank's connections once the members are known.
using Connect = std::function<Result<void>(const Welcome&)>;

// Brings the ranks together: everybody presents itself to the host, learns the members, connects
// with them by `connect`, and reports; only if all could, all go on. Every rank gets the same
// verdict.

// For the rank that others come to.
Result<Welcome> host_rendezvous(net::Listener& listener, const RendezvousOptions& options,
                                const Connect& connect, Deadline by);
// For all others. `local_address` is asked for between reaching the host and saying hello: it may
// complete the hello by the address under which this rank reached the host.
Result<Welcome> attend_rendezvous(
    RendezvousOptions options,
    const std::function<Result<void>(const net::Address& local_address, Hello& hello)>& introduce,
    const Connect& connect, Deadline by);

}  // namespace tally::group
