#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/group/bucket_accumulator.h"
#include "exchange/memory/model_memory.h"
#include "exchange/memory/parameter_layout.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// The facts of a step that an update needs.
struct UpdateFacts {
  std::span<const double> rates;         // by group
  std::span<const std::uint64_t> steps;  // by parameter: the number of its updates so far
  std::span<const std::uint8_t> used;    // by parameter: whether any rank has a gradient for it
  // Updates of the model so far. An optimizer that freezes counts these, as servers and senders
  // that take over the momentum do.
  std::uint64_t updates = 0;
};

// Sums of squares of one parameter's values and gradient.
struct Squares {
  double values = 0;
  double gradient = 0;
};

// The part of a bucket that this rank updates, with its optimizer state. Sums over a parameter are
// made cell by cell. A cell is the intersection of one block of the bucket with one parameter;
// cells are numbered through the bucket. Threads: calls must not overlap.
class Slice {
 public:
  struct Options {
    const ModelMemory& memory;
    std::size_t bucket = 0;
    int neighbour = 0;  // the rank of the host that the slice belongs to
    Range range;
    const std::vector<ParameterInfo>& parameters;
    const std::vector<OptimizerSpec>& optimizers;  // by group
    // Whether new values go to outgoing() instead of the memory.
    bool apart = false;
    // Whether the state exists already. Otherwise it begins with its initial values.
    bool has_state = false;
  };
  // The arrays that the slice needs in ModelMemory::make_state(), before make().
  static StateArrays needs(const Options& options);
  // Makes a slice for the bucket's type. The objects that `options` refers to must outlive it.
  static std::unique_ptr<Slice> make(const Options& options);
  // The number of cells of one entry, and of a whole bucket.
  static std::size_t cells_in(Range entry);
  static std::size_t cells_of(const BucketLayout& bucket);
  virtual ~Slice() = default;

  // Sums the gradients of the host, divided by `divisor`, and applies the result chunk by chunk.
  // Not for optimizers that need sums over a parameter. `limit` is that of clamp(), or 0.
  virtual void sum_and_update(const BucketAccumulator& gradients, double divisor, double limit,
                              const UpdateFacts& facts) = 0;

  // The same in separate steps. The gradient is in float32, or float64 for float64 buckets.
  virtual void sum(const BucketAccumulator& gradients, double divisor) = 0;
  virtual std::span<std::byte> gradient() = 0;
  virtual void scale(double factor) = 0;
  virtual void clamp(double limit) = 0;
  virtual void prepare(const UpdateFacts& facts) = 0;
  // Writes cells[k] for each cell k of the slice.
  virtual void squares(std::span<Squares> cells) const = 0;
  virtual void update(const UpdateFacts& facts, std::span<const Squares> of_parameters) = 0;

  // New values of the slice in the bucket's type, to be sent.
  virtual std::span<const std::byte> outgoing() = 0;
  // Copies the present values to the master copies, after another writer changed them.
  virtual void adopt_values() = 0;
  // The present states of the elements in `part`, a subrange of the slice's range.
  virtual std::vector<SliceState> states(Range part) = 0;
};

}  // namespace tally::exchange
