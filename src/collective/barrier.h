#pragma once
#include "collective/schedule.h"

namespace tally::collective {

// Dissemination barrier (Hensgen, Finkel, Manber 1988): ceil(log2 N) steps of one empty message
// sent and one received. No rank ends before every rank has begun.
Schedule dissemination_barrier(Rank rank, int ranks);

}  // namespace tally::collective
