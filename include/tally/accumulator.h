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
  std::span<const float> gradient;  // mean over the samples behind it
  std::uint64_t samples = 0;
  std::uint64_t version = 0;  // of the parameters that it was computed at
  int hand = 0;               // which of this rank's adding threads it comes from
};

// Where the gradients of all ranks come together and become one update:
//
//   zero -> add ... -> complete: sum over all ranks, average by samples -> apply -> zero
//
// The average is by samples, not by ranks, so unequal batches and a rank that has run out of data
// are right without special cases. A contribution is applied once or not at all: if complete()
// fails, what was added here stays, and can be completed on another communicator. Other ranks may
// have completed before they heard of the failure: version() tells; see docs/failures.md. Threads:
// add() may run in many at once; complete() alone. Each hand's sum is its own and hands are added
// in their order, so the same contributions give the same bits.
class Accumulator {
 public:
  struct Options {
    std::size_t size = 0;  // of the bucket, in elements
    int hands = 1;         // threads of this rank that add
  };
  static Result<std::unique_ptr<Accumulator>> make(Communicator& communicator,
                                                   const Options& options);
  virtual ~Accumulator() = default;

  // kStale if it was computed at other parameters than the present ones; kInvalid if its size or
  // hand is wrong. Refused contributions change nothing.
  virtual Result<void> add(const Contribution& contribution) = 0;

  // Called by all ranks. `apply` gets the average over all samples of all ranks, the same bits on
  // each. Then the accumulator is zero again and the version one higher. kInvalid, on all ranks and
  // with nothing changed, if nobody contributed any sample.
  virtual Result<void> complete(const std::function<void(std::span<const float> average)>& apply,
                                const Call& call = {}) = 0;

  // Goes on in another group, with what has been added: after the old one lost a rank.
  virtual Result<void> move_to(Communicator& communicator) = 0;

  // Of the parameters: how often complete() has succeeded here.
  virtual std::uint64_t version() const = 0;
};

}  // namespace tally
