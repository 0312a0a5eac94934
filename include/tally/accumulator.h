#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tally/communicator.h"

namespace tally {

// One worker's gradient for one bucket of parameters.
struct Contribution {
  std::span<const float> gradient;  // mean over `samples` samples
  std::uint64_t samples = 0;
  std::uint64_t version = 0;  // parameter version that the gradient was computed at
  int hand = 0;               // index of this rank's thread that adds the gradient
};

// Sums the gradients of all ranks for one bucket and hands out their average:
//
//   zero -> add ... -> complete: sum over all ranks, average by samples -> apply -> zero
//
// The average is weighted by samples, not by ranks. Unequal batches and a rank without data
// therefore need no special case. A contribution is applied once or never: if complete() fails,
// this rank keeps its sum and can complete it on another communicator. Other ranks may have
// completed before they learned of the failure; version() shows that (see docs/failures.md).
// Threads: many threads may call add() at once; nothing else may run during complete(). Each hand
// has its own sum, and complete() adds the hands in index order, so that equal contributions give
// equal bits.
class Accumulator {
 public:
  struct Options {
    std::size_t size = 0;  // elements of the bucket
    int hands = 1;         // threads of this rank that call add()
  };
  static Result<std::unique_ptr<Accumulator>> make(Communicator& communicator,
                                                   const Options& options);
  virtual ~Accumulator() = default;

  // Returns kStale if the contribution was computed at another parameter version than version(),
  // and kInvalid if its size or hand is wrong. A refused contribution changes nothing.
  virtual Result<void> add(const Contribution& contribution) = 0;

  // Collective. `apply` receives the average over all samples of all ranks, with the same bits on
  // each rank. Afterwards the accumulator is zero and the version is one higher. Returns kInvalid
  // on all ranks, with nothing changed, if no rank contributed a sample.
  virtual Result<void> complete(const std::function<void(std::span<const float> average)>& apply,
                                const Call& call = {}) = 0;

  // Replaces the communicator, for example after the old one lost a rank. The sums are kept.
  virtual Result<void> move_to(Communicator& communicator) = 0;

  // The parameter version: the number of successful complete() calls of this object.
  virtual std::uint64_t version() const = 0;
};

}  // namespace tally
