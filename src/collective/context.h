#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/cpu.h"
#include "collective/started_operations.h"
#include "collective/watchable.h"
#include "net/router.h"
#include "net/segment.h"
#include "net/transport.h"

namespace tally::collective {

// The number of polls before sleeping, where every rank has a core of its own.
inline constexpr int kSpins = 4000;

// The state that all communicators of one rank share. It outlives them all.
struct Context : Watchable {
  std::shared_ptr<const Clock> clock;  // a simulation lends its own
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<net::Router> router;
  // Null where no memory is shared; shared with SharedBuffers.
  std::shared_ptr<net::Segment> segment;

  Rank rank = 0;
  // By rank of the job; ranks that share no segment have hosts of their own.
  std::vector<int> host_of;
  std::vector<int> in_host;  // number within the host's segment, by rank of the job

  Duration operation_timeout = std::chrono::minutes(5);
  // The number of polls before sleeping; 0 where ranks outnumber cores.
  int spins = 0;
  // RingSegments::at_once; equal on all ranks of the job.
  int segments_at_once = 1;
  // Areas whose owner has left, to be released when all members have left.
  struct OldArea {
    std::byte* memory;
    int members;
  };
  std::vector<OldArea> old_areas;  // guarded by router->mutex

  bool left = false;  // the transport is closed; guarded by router->mutex

  // Set where time is simulated and no thread may run beside the rank's own; null where started
  // operations have threads.
  std::unique_ptr<StartedOperations> started;
};

}  // namespace tally::collective
