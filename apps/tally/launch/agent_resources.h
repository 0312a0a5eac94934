#pragma once
#include <cstdint>

#include "base/descriptor.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::launch {

// Reserves a port. A process that sets SO_REUSEADDR, as rank 0 does, can bind and listen on it,
// because this socket does not listen.
class HeldPort final {
 public:
  static Result<HeldPort> hold();
  std::uint16_t port() const { return port_; }

 private:
  HeldPort(Descriptor v4, Descriptor v6, std::uint16_t port)
      : v4_(std::move(v4)), v6_(std::move(v6)), port_(port) {}
  Descriptor v4_;
  Descriptor v6_;  // closed where there is no IPv6
  std::uint16_t port_;
};

// Writes the secret to an anonymous file in memory that only this user can read. Its path is
// "/proc/PID/fd/N" while this process holds the descriptor. The file disappears when the process
// ends.
Result<Descriptor> secret_in_memory(const Secret& secret);

}  // namespace tally::launch
