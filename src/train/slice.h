#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tally/optimizer.h"
#include "train/parameter_layout.h"

namespace tally::train {

// What an update needs to know about this step.
struct UpdateFacts {
  std::span<const double> rates;         // by group
  std::span<const std::uint64_t> steps;  // by parameter: how often it was updated before
  std::span<const std::uint8_t> used;    // by parameter: whether anybody has a gradient for it
  // Of the model before. An optimizer that freezes counts by them, as whoever sends momentum from
  // then on does, and as servers do.
  std::uint64_t updates = 0;
};

// Gradients of several ranks, and what each weighs.
struct Sources {
  std::span<const void* const> gradients;  // of the slice's first element
  std::span<const double> weights;
};

// Squares of one parameter's values and gradient, summed.
struct Squares {
  double values = 0;
  double gradient = 0;
};

// A run of elements of one parameter that a slice has, and where its state lies.
struct SliceState {
  std::size_t parameter = 0;
  std::size_t first = 0;        // element of the parameter
  std::span<std::byte> values;  // of the bucket's type
  std::vector<std::span<std::byte>>
      state;  // by array of the optimizer, then the master copy if there is one
};

// The part of a bucket that this rank updates, with its optimizer state: which parameters it has
// elements of, and what is done with them. Sums over a parameter are made cell by cell: a cell is
// what one block of the bucket has of one parameter, numbered through the bucket. Threads: calls
// must not overlap.
class Slice {
 public:
  struct Options {
    const BucketLayout& bucket;
    Range range;
    const std::vector<ParameterInfo>& parameters;
    const std::vector<OptimizerSpec>& optimizers;  // by group
    std::byte* values = nullptr;                   // the bucket's parameters: all of them
    // Whether new values are kept apart (outgoing()) instead of being written to `values`.
    bool apart = false;
  };
  // For the bucket's type; these live as long as the slice.
  static std::unique_ptr<Slice> make(const Options& options);
  // How many cells the elements of one entry, and of a whole bucket, are.
  static std::size_t cells_in(Range entry);
  static std::size_t cells_of(const BucketLayout& bucket);
  virtual ~Slice() = default;

  // The sum of the sources becomes the gradient and is applied at once, chunk by chunk. Not for
  // optimizers that need sums over a parameter.
  virtual void sum_and_update(const Sources& sources, double limit, const UpdateFacts& facts) = 0;

  // The same in steps. The gradient is in float32, or float64 for such buckets.
  virtual void sum(const Sources& sources) = 0;
  virtual std::span<std::byte> gradient() = 0;
  virtual void scale(double factor) = 0;
  virtual void clamp(double limit) = 0;
  virtual void prepare(const UpdateFacts& facts) = 0;
  // Into cells[k] for each cell k of the slice.
  virtual void squares(std::span<Squares> cells) const = 0;
  virtual void update(const UpdateFacts& facts, std::span<const Squares> of_parameters) = 0;

  // New values of the slice in the bucket's type, to be sent.
  virtual std::span<const std::byte> outgoing() = 0;
  // After values changed from outside: master copies follow.
  virtual void adopt_values() = 0;
  // Of the elements in `part`, a part of the slice's range.
  virtual std::vector<SliceState> states(Range part) = 0;
};

}  // namespace tally::train
