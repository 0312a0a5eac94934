#pragma once
#include <memory>

#include "collective/algorithms.h"
#include "collective/direct.h"
#include "collective/hierarchical.h"
#include "collective/mailbox.h"
#include "collective/schedule.h"
#include "collective/shared_area.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

// The messages of this rank in a collective by one of the message algorithms of choose(): ring,
// halving-doubling, tree or pairwise. `cut` is for the ring all-reduce.
Schedule schedule_for(const Request& request, Rank rank, int ranks, Algorithm algorithm,
                      const RingSegments& cut = {});

// The place where a task runs.
struct Site {
  Mailbox& mailbox;
  SharedArea* area;  // of the ranks on this host; null if this rank is alone there
  const Topology& topology;
  Rank rank;
  int ranks;
  RingSegments segments;  // equal on all ranks
  Traffic& traffic;
};

// The task that runs `request` with `algorithm`, which choose() has accepted.
std::unique_ptr<Task> make_task(const Site& site, const Request& request, Algorithm algorithm,
                                std::uint32_t sequence, const wire::Signature& signature);

// The part of `request` in a collective inside one host, for DirectTask and SlotTask.
DirectPlan direct_plan(const Request& request, Rank rank, int ranks);
}  // namespace tally::collective
