#pragma once
#include <memory>

#include "collective/algorithms.h"
#include "collective/mailbox.h"
#include "collective/shared_area.h"
#include "collective/task.h"
#include "collective/topology.h"

namespace tally::collective {

// All-reduce over several hosts that have several ranks each: inside a host every lane's rank
// reduces its slice directly, the same lanes of all hosts all-reduce their slice by messages, and
// inside the host the slices are spread again. `area` is this host's, or null if it has one
// rank. A slice crosses between hosts once per host and direction.
std::unique_ptr<Task> hierarchical_allreduce(SharedArea* area, Mailbox& mailbox,
                                             const Topology& topology, const Request& request,
                                             std::uint32_t sequence,
                                             const wire::Signature& signature,
                                             const RingSegments& segments, Traffic& traffic);

}  // namespace tally::collective
