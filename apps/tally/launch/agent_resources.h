#pragma once
#include <cstdint>

#include "base/descriptor.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::launch {

// Reserves a port. A process that sets SO_REUSEADDR, as rank 0 does, can bind and listen on it,
// because this socket does not listen.
struct HeldPort {
  Descriptor v4;
  Descriptor v6;  // closed where there is no IPv6
  std::uint16_t port = 0;
};
Result<HeldPort> hold_port();

// Writes the secret to an anonymous file in memory that only this user can read. Its path is
// "/proc/PID/fd/N" while this process holds the descriptor. The file disappears when the process
// ends.
Result<Descriptor> secret_in_memory(const Secret& secret);

}  // namespace tally::launch
