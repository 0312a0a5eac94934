#pragma once
#include "checkpoint/snapshot.h"
#include "tally/checkpoint.h"

namespace tally::checkpoint {

// One save, of all ranks together, from the claims to the removal of old checkpoints.
// `*group_works` becomes false if it failed because the communicator did; any other error is the
// same on all ranks.
Result<void> save_together(Communicator& group, const WriterOptions& options,
                           const Snapshot& snapshot, bool* group_works);

}  // namespace tally::checkpoint
