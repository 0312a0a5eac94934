#pragma once
#include "tally/error.h"

namespace tally::net {

enum class PeerUser {
  kSame,           // the user of this process
  kOnAnotherHost,  // no socket of this machine is the other end
  kUnknown,        // the kernel does not tell the owners of sockets (sock_diag(7))
};

// The user at the other end of a connected TCP socket. Any user of a machine can connect to its
// loopback addresses, so a job without a secret asks the kernel. kRefused, with both users, if
// another user of this machine is at the other end; kPeerLost if that end was closed.
Result<PeerUser> check_peer_user(int socket);

}  // namespace tally::net
