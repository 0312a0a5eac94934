#pragma once
#include <memory>

#include "bench/train/problem.h"
#include "tally/error.h"
#include "tally/job.h"
#include "tally/torch.h"

namespace tally::bench::train {

// Training of a problem in this process, step by step. May throw exceptions of torch or the
// trainer.
class TrainLoop {
 public:
  virtual ~TrainLoop() = default;
  // One step; returns the mean loss over all ranks before the update.
  virtual double step_with_loss() = 0;
  // The same step without computing the loss value, as an ordinary program does. On a GPU the step
  // may still run when this returns.
  virtual void step() = 0;
};

// A plain libtorch loop in one process. With `parts` above one it is the reference for as many
// ranks: it adds the gradients of all parts to the same parameters and then makes one step, which
// is what N ranks must compute.
Result<std::unique_ptr<TrainLoop>> make_plain_loop(const Problem& problem, int parts);

// Forward and backward passes over the batches of rank 0, whose gradients are dropped.
Result<std::unique_ptr<TrainLoop>> make_passes(const Problem& problem);

// tally's trainer as a rank of `job`, which outlives the loop.
Result<std::unique_ptr<TrainLoop>> make_tally_loop(const Problem& problem, Job& job,
                                                   const TrainerOptions& options);

}  // namespace tally::bench::train
