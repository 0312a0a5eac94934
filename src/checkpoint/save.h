#pragma once
#include "tally/checkpoint.h"

namespace tally::checkpoint {

// One collective save, from the claims to the removal of old checkpoints. `*group_works` becomes
// false if the communicator failed; any other error is the same on all ranks.
Result<void> save_together(Communicator& group, const WriterOptions& options,
                           const Content& content, bool* group_works);

}  // namespace tally::checkpoint
