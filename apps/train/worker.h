#pragma once
#include "apps/train/train_options.h"
#include "recipes/recipe.h"

namespace tally::app {

// This process as one worker of a job that a launcher started: joins it, trains, and on rank 0
// tells the result and writes it. Whatever fails ends in one line with the rank. Returns the exit
// code: 0; 1 if something failed; 130 if it was interrupted.
int run_worker(const TrainOptions& options, recipes::Recipe& recipe);

}  // namespace tally::app
