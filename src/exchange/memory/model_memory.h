#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exchange/group/tiers.h"
#include "exchange/memory/parameter_layout.h"
#include "exchange/memory/step_flags.h"
#include "tally/communicator.h"

namespace tally::exchange {

// The memory of a model on one host: the gradients of each rank, the parameter values once for all
// ranks, and the flags that show the progress of each rank. All neighbours share all of it.
class ModelMemory final {
 public:
  // Called by all ranks of the world.
  static Result<std::unique_ptr<ModelMemory>> make(Communicator& world, const Tiers& tiers,
                                                   Layout layout, Deadline by);
  ~ModelMemory();
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  // The caller has ensured that no neighbour uses the memory any more: the destructor frees it.
  void all_have_left() { is_left_ = true; }

  const Layout& layout() const { return layout_; }
  // The bucket's first element.
  std::byte* values(std::size_t bucket) const { return values_ + layout_.buckets[bucket].offset; }
  std::byte* gradients(std::size_t bucket, int neighbour) const {
    return gradients_[static_cast<std::size_t>(neighbour)].data() + layout_.buckets[bucket].offset;
  }
  const StepFlags& flags(int neighbour) const {
    return flags_[static_cast<std::size_t>(neighbour)];
  }

 private:
  ModelMemory(Layout layout, int local) : layout_(std::move(layout)), local_(local) {}

  const Layout layout_;
  const int local_;
  bool is_left_ = false;
  SharedBuffer own_gradients_;
  SharedBuffer own_values_;  // of the host's first rank
  SharedBuffer own_flags_;
  std::vector<std::span<std::byte>> gradients_;  // by neighbour
  std::byte* values_ = nullptr;
  std::vector<StepFlags> flags_;
};

}  // namespace tally::exchange
