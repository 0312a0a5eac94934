#pragma once
#include <memory>

#include "collective/board.h"
#include "collective/direct.h"
#include "collective/hierarchical.h"
#include "collective/mailbox.h"
#include "collective/schedule.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

// The messages of this rank in a collective by one of the message algorithms of choose(): ring,
// halving-doubling, tree or pairwise.
Schedule schedule_for(const Request& request, Rank rank, int ranks, Algorithm algorithm);

// Everything a task needs to know about where it runs.
struct Site {
  Mailbox& mailbox;
  Board* board;  // of the ranks on this host; null if this rank is alone there
  const Hosts& hosts;
  Rank rank;
  int ranks;
  Traffic& traffic;
};

// The task that carries `request` out by `algorithm`, which choose() has found possible.
std::unique_ptr<Task> make_task(const Site& site, const Request& request, Algorithm algorithm,
                                std::uint32_t sequence, const wire::Signature& signature);

// The part of `request` in a collective inside one host: what DirectTask and SlotTask carry out.
DirectPlan direct_plan(const Request& request, Rank rank, int ranks);
// Where this rank's memory is in that collective.
Notice direct_notice(const Board& board, const DirectPlan& plan, std::uint32_t sequence,
                     const wire::Signature& signature);

}  // namespace tally::collective
