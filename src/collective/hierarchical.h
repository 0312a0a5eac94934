#pragma once
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/mailbox.h"
#include "collective/shared_area.h"
#include "collective/task.h"

namespace tally::collective {

// The ranks of a communicator by host, in order.
using Hosts = std::vector<std::vector<Rank>>;

// All-reduce over several hosts that have several ranks each: inside a host every lane's rank
// reduces its slice directly, the same lanes of all hosts all-reduce their slice by messages, and
// inside the host the slices are spread again. There are as many lanes as the smallest host has
// ranks. `area` is this host's, or null if it has one rank. A slice crosses between hosts once per
// host and direction.
std::unique_ptr<Task> hierarchical_allreduce(SharedArea* area, Mailbox& mailbox, const Hosts& hosts,
                                             Rank rank, const Request& request,
                                             std::uint32_t sequence,
                                             const wire::Signature& signature,
                                             const RingSegments& segments, Traffic& traffic);

}  // namespace tally::collective
