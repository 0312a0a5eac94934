#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "tally/communicator.h"

// Messages of any length between the ranks that save together.
namespace tally::checkpoint {

using Message = std::vector<std::byte>;

// All ranks' messages at rank 0, by rank; nothing elsewhere.
Result<std::vector<Message>> gather(Communicator& group, const Message& own, Deadline by);

// Rank 0's verdict, on all ranks: nothing, or an error. `own` counts at rank 0.
Result<void> agree(Communicator& group, const Result<void>& own, Deadline by);

// A text of rank 0's, on all ranks.
Result<std::string> tell(Communicator& group, const std::string& own, Deadline by);

}  // namespace tally::checkpoint
