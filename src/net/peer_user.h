#pragma once
#include "tally/error.h"

namespace tally::net {

enum class PeerUser {
  kSame,           // the user of this process
  kOnAnotherHost,  // no socket of this machine is the other end
  kUnknown,        // the kernel does not tell the owners of sockets (sock_diag(7))
};

// The user at the other end of a connected TCP socket. Any user of a machine can connect to its
// loopback addresses and listen there, so both sides of a job without a secret ask the kernel. The
// owner of a listener counts while it has not accepted the connection yet. kRefused, with both
// users and the remedy, if another user of this machine is at the other end; kPeerLost if that end
// was closed.
Result<PeerUser> check_peer_user(int socket);

}  // namespace tally::net
