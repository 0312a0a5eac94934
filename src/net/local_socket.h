#pragma once
#include <sys/types.h>

#include <string>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::net {

// Local sockets with abstract names, which are in no folder and vanish with their owner. Anybody on
// the host (in the network namespace) can use such a name, so both sides ask who the other is.

// A listening, non-blocking socket under `name`, of which the first 107 bytes count. kRefused if
// the name is taken.
Result<Descriptor> listen_locally(const std::string& name);

// Connects to who listens under `name`; kSystem if nobody does.
Result<Descriptor> connect_locally(const std::string& name);

// The process at the other end (of a connection: the one that called, listened or made the pair),
// if it belongs to this process's user; kRefused otherwise. 0: it is in another pid namespace.
Result<pid_t> peer_of_same_user(int socket);

}  // namespace tally::net
