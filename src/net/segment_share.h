#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "net/local_socket.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::net {

// Passing a segment's descriptor between processes of one host over local sockets. Both sides check
// the other's user and process.

struct LocalPeer {
  Rank rank = 0;
  pid_t pid = 0;
};

// Gives `memory` and `note` to each of `peers`, which connect to `listener`; other processes are
// refused. kTimeout names a peer that did not connect.
Result<void> give_segment(const Descriptor& listener, int memory, std::uint64_t note,
                          const std::vector<LocalPeer>& peers, Deadline by);

struct GivenSegment {
  Descriptor memory;
  std::uint64_t note = 0;
};
// Receives both from `owner`, which listens under `name`.
Result<GivenSegment> take_segment(const std::string& name, const LocalPeer& owner, Deadline by);

// A descriptor that becomes readable when the process ends. kPeerLost if it has already.
Result<Descriptor> watch_process(const LocalPeer& peer);

}  // namespace tally::net
