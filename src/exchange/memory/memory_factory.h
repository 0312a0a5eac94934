#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exchange/group/tiers.h"
#include "tally/communicator.h"

namespace tally::exchange {

// Where the arrays of a ModelMemory come from.
class MemoryFactory {
 public:
  virtual ~MemoryFactory() = default;
  // Zeroed memory of this rank. kExhausted if not enough is left.
  virtual Result<SharedBuffer> allocate(std::size_t bytes) = 0;
  // The memory of all ranks of the replica, in their order, as mapped into this process. Called by
  // all ranks, each with its own buffer from allocate().
  virtual Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& own, Deadline by) = 0;
};

// Memory that the ranks of a host share. `world` and `tiers` must outlive the result.
std::unique_ptr<MemoryFactory> shared_memory(Communicator& world, const Tiers& tiers);
// Memory of this process, for a rank that has a replica of its own.
std::unique_ptr<MemoryFactory> ordinary_memory();

}  // namespace tally::exchange
