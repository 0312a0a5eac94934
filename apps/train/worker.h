#pragma once
#include "apps/train/train_options.h"
#include "recipes/recipe.h"

namespace tally::app {

// One worker of a job that a launcher started: joins the job and trains; rank 0 reports and writes
// the result. A failure is one line with the rank. Returns the exit code: 0; 1 after a failure; 130
// after an interruption.
int run_worker(const TrainOptions& options, recipes::Recipe& recipe);

}  // namespace tally::app
