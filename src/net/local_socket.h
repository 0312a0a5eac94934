#pragma once
#include <sys/types.h>

#include <string>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally::net {

// Local sockets with abstract names, which are in no folder and vanish with their owner. Any
// process in the network namespace can use such a name, so both sides check the user of the other.

// A listening, non-blocking socket under `name`, of which the first 107 bytes count. kRefused if
// the name is taken.
Result<Descriptor> listen_locally(const std::string& name);

// Connects to the process that listens under `name`; kSystem if none does. The socket blocks.
Result<Descriptor> connect_locally(const std::string& name);

// The process at the other end (the one that connected, listened or made the pair), if it belongs
// to the user of this process; kRefused otherwise. 0: it is in another pid namespace.
Result<pid_t> peer_of_same_user(int socket);

}  // namespace tally::net
