#include "exchange/memory/model_memory.h"

#include <algorithm>

namespace tally::exchange {

Result<std::unique_ptr<ModelMemory>> ModelMemory::make(Communicator& world, const Tiers& tiers,
                                                       Layout layout, Deadline by) {
  const std::size_t bytes = std::max<std::size_t>(layout.bytes, 1);
  const std::size_t flag_bytes = StepFlags::bytes_for(layout.buckets.size());
  std::unique_ptr<ModelMemory> memory(new ModelMemory(std::move(layout), tiers.local));
  TALLY_TRY(memory->own_gradients_, world.allocate(bytes));
  TALLY_TRY(memory->own_values_, world.allocate(tiers.local == 0 ? bytes : 1));
  TALLY_TRY(memory->own_flags_, world.allocate(flag_bytes));
  TALLY_TRY(const auto gradients, world.share(memory->own_gradients_, by));
  TALLY_TRY(const auto values, world.share(memory->own_values_, by));
  TALLY_TRY(const auto flags, world.share(memory->own_flags_, by));
  for (const Rank neighbour : tiers.neighbours) {
    memory->gradients_.push_back(gradients[static_cast<std::size_t>(neighbour)]);
    memory->flags_.emplace_back(flags[static_cast<std::size_t>(neighbour)]);
  }
  memory->values_ = values[static_cast<std::size_t>(tiers.neighbours.front())].data();
  return memory;
}

// Keeps the values and flags unless all neighbours have left: a neighbour may still read the
// values, and reads the flags when it leaves.
ModelMemory::~ModelMemory() {
  if (flags_.empty() || is_left_) return;
  flags_[static_cast<std::size_t>(local_)].leave();
  const bool all_left = std::all_of(flags_.begin(), flags_.end(),
                                    [](const StepFlags& flags) { return flags.has_left(); });
  if (all_left) return;
  own_values_.keep();
  own_flags_.keep();
}

}  // namespace tally::exchange
