#pragma once
#include "collective/layout.h"
#include "collective/schedule.h"

namespace tally::collective {

// All-to-all in N-1 steps of one send and one receive: in step i each rank sends to the rank i
// after it and receives from the rank i before it, so that no link carries two messages at once.
// `to_send` lays out kInput, `to_receive` kOutput, both by rank.
Schedule pairwise_all_to_all(const Parts& to_send, const Parts& to_receive, Rank rank);

}  // namespace tally::collective
