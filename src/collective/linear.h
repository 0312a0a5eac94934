#pragma once
#include "collective/layout.h"
#include "collective/schedule.h"

namespace tally::collective {

// Gather and scatter with one message between the root and every other rank, all in one step. The
// root's link is the limit, as along any tree: all parts must pass it.

// kInput holds this rank's part; kOutput, at `root` only, all.
Schedule linear_gather(const Parts& parts, Rank root, Rank rank);

// kInput, at `root` only, holds all parts; kOutput this rank's.
Schedule linear_scatter(const Parts& parts, Rank root, Rank rank);

}  // namespace tally::collective
