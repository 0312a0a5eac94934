#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "bench/train/problem.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::bench::train {

// Training of a problem in this process, step by step. May throw what torch or the trainer throws.
class TrainLoop {
 public:
  virtual ~TrainLoop() = default;
  // One step; returns the mean loss over all ranks, before the update.
  virtual double step_with_loss() = 0;
  // The same step, as a program does that does not look at the loss.
  virtual void step() = 0;
};

// A plain libtorch loop in one process. With `parts` above one it is the reference of as many
// ranks: one after the other they add their share to the gradient of the same parameters, then one
// step follows. That is what N ranks must come to, by other means.
Result<std::unique_ptr<TrainLoop>> make_plain_loop(Problem problem, int parts);

struct TallyLoopOptions {
  std::size_t bucket_bytes = 0;  // 0: the trainer's default
  std::string plan = {};
};

// Our trainer, as rank of `job`, which outlives the loop. What it tells of itself goes to stderr.
Result<std::unique_ptr<TrainLoop>> make_tally_loop(Problem problem, Job& job,
                                                   const TallyLoopOptions& options);

}  // namespace tally::bench::train
