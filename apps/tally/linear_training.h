#pragma once
#include <functional>
#include <vector>

#include "apps/tally/linear_problem.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::app {

struct LinearTraining {
  LinearSpec spec;
  int max_steps = 2000;
  double rate = 0.5;
  double enough = 1e-7;  // a gradient with no larger component counts as zero
};

struct LinearOutcome {
  std::vector<double> weights;  // the same bits on every rank
  int steps = 0;
  double largest_gradient = 0;  // its largest component at the end
};

// Gradient descent over all samples, each rank computing the gradient of its own shard. Every rank
// calls it. `told` hears of each step on every rank. kInvalid if the weights run away.
Result<LinearOutcome> train_linear(Job& job, const LinearTraining& training,
                                   const std::function<void(const LinearOutcome&)>& told);

}  // namespace tally::app
