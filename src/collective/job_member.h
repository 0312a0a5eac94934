#pragma once
#include <memory>

#include "collective/communicator.h"
#include "collective/context.h"
#include "tally/job.h"

namespace tally::collective {

// The result of forming a group: everything that the communicators of this rank need.
struct Formed {
  std::shared_ptr<Context> context;
  int size = 1;
  std::byte* area_memory = nullptr;  // the world's, on this host; null if this rank is alone there
  std::uint32_t generation = 0;
};

// The world communicator of a formed group.
std::unique_ptr<GroupCommunicator> make_world(const Formed& formed);

}  // namespace tally::collective
