#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "tally/communicator.h"

// Messages of any length between the ranks that save together. All functions are collective.
namespace tally::checkpoint {

using Message = std::vector<std::byte>;

// Gathers the messages of all ranks at rank 0, ordered by rank. Other ranks get an empty vector.
Result<std::vector<Message>> gather(Communicator& group, const Message& own, Deadline by);

// Broadcasts rank 0's outcome: all ranks return success or the same error. `own` of other ranks is
// ignored.
Result<void> agree(Communicator& group, const Result<void>& own, Deadline by);

// Broadcasts rank 0's text. `own` of other ranks is ignored.
Result<std::string> tell(Communicator& group, const std::string& own, Deadline by);

}  // namespace tally::checkpoint
