#pragma once
#include <memory>

#include "collective/communicator.h"
#include "collective/context.h"
#include "tally/job.h"

namespace tally::collective {

// What forming a group yields: everything that the communicators of this rank run on.
struct Formed {
  std::shared_ptr<Context> context;
  int size = 1;
  std::byte* board_memory = nullptr;  // the world's, on this host; null if this rank is alone there
  std::uint32_t generation = 0;
};

// The world communicator of a formed group.
std::unique_ptr<GroupCommunicator> make_world(const Formed& formed);

}  // namespace tally::collective
