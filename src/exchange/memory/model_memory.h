#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exchange/memory/memory_factory.h"
#include "exchange/memory/parameter_layout.h"
#include "exchange/memory/step_flags.h"
#include "tally/communicator.h"

namespace tally::exchange {

// The arrays that a rank keeps for its slice of one bucket: optimizer state and master copies.
struct StateArrays {
  std::size_t count = 0;          // elements of the slice
  std::size_t arrays = 0;         // of that many elements each
  std::size_t element_bytes = 4;  // 8 for float64 buckets
};

// The memory of one replica of a model, which belongs to the ranks of a host or to one rank: the
// gradients of each rank, the parameter values once, the optimizer state of each rank's slices, and
// the flags that show the progress of each rank. All ranks of the replica see all of it.
//
// Values and state exist in two generations. An update reads one of them and writes the other;
// flip() commits it. With one generation updates happen in place.
class ModelMemory final {
 public:
  // Called by all ranks. `local` is this rank's number in the replica, `generations` is 1 or 2.
  static Result<std::unique_ptr<ModelMemory>> make(MemoryFactory& factory, int local, Layout layout,
                                                   int generations, Deadline by);
  ~ModelMemory();
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  // The caller has ensured that no neighbour uses the memory any more: the destructor frees it.
  void all_have_left() { is_left_ = true; }

  const Layout& layout() const { return layout_; }
  int generations() const { return generations_; }
  // The generation with the present version, and the one that the next update writes.
  int present() const { return present_; }
  int next() const { return generations_ - 1 - present_; }
  // The next generation becomes the present one.
  void flip() { present_ = next(); }

  // The bucket's first element.
  std::byte* values(std::size_t bucket, int generation) const {
    return values_[static_cast<std::size_t>(generation)] + layout_.buckets[bucket].offset;
  }
  std::byte* gradient_bucket(std::size_t bucket, int neighbour) const {
    return gradients_[static_cast<std::size_t>(neighbour)].data() + layout_.buckets[bucket].offset;
  }
  // The gradient of a parameter on a neighbour, wherever it lies; null if there is none. Valid as
  // StepFlags::place().
  const std::byte* gradient(std::size_t parameter, int neighbour) const {
    const std::int64_t place = flags(neighbour).place(parameter);
    return place == StepFlags::kNoGradient
               ? nullptr
               : gradients_[static_cast<std::size_t>(neighbour)].data() + place;
  }
  // Tells the neighbours where this rank's gradient of a parameter lies; null: there is none. If
  // there are neighbours, it lies in gradient_bucket() or in memory from add_gradients().
  void put_gradient(std::size_t parameter, const std::byte* gradient) const;
  // More memory that neighbours can read gradients from.
  Result<std::span<std::byte>> add_gradients(MemoryFactory& factory, std::size_t bytes);
  // Whether neighbours can read gradients there.
  bool has_gradients(std::span<const std::byte> memory) const;
  // Keeps the memory of gradients alive.
  std::shared_ptr<const void> gradient_owner() const { return own_gradients_; }
  const StepFlags& flags(int neighbour) const {
    return flags_[static_cast<std::size_t>(neighbour)];
  }

  // Allocates the zeroed state of the ranks' slices: `needs` by neighbour, then by bucket. Called
  // by all ranks. The memory of an earlier call is freed.
  using Needs = std::vector<std::vector<StateArrays>>;
  Result<void> make_state(MemoryFactory& factory, Needs needs, Deadline by);
  // The first element of one array of a neighbour's slice.
  std::byte* state(int neighbour, std::size_t bucket, std::size_t array, int generation) const;

  // That this rank has allocated.
  std::size_t bytes() const;

 private:
  ModelMemory(Layout layout, int generations, int local)
      : layout_(std::move(layout)), generations_(generations), local_(local) {}

  const Layout layout_;
  const int generations_;
  const int local_;
  int present_ = 0;
  bool is_left_ = false;
  // The buckets, then what add_gradients() has added. Shared with tensors that lie in it.
  std::shared_ptr<std::vector<SharedBuffer>> own_gradients_;
  SharedBuffer own_values_;  // of the first rank, all generations
  SharedBuffer own_flags_;
  SharedBuffer own_state_;
  Needs needs_;
  std::vector<std::span<std::byte>> gradients_;  // by neighbour
  std::vector<std::span<std::byte>> states_;     // by neighbour
  std::array<std::byte*, 2> values_{};           // by generation
  std::vector<StepFlags> flags_;
};

}  // namespace tally::exchange
