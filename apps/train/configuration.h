#pragma once
#include <string>
#include <vector>

#include "apps/train/preparation.h"
#include "apps/train/report.h"
#include "apps/train/train_options.h"
#include "recipes/recipe.h"

namespace tally::app {

// Facts about the run, for the rows of the configuration.
struct SetupFacts {
  int workers = 1;
  int threads = 1;
  std::string device;
  bool channels_last = false;  // has_channels_last() on that device
  std::string torch;
  std::string host;  // of the worker that reports
};

std::vector<RecordRow> configuration_of(const TrainOptions& options, recipes::Recipe& recipe,
                                        const Preparation& prepared, const SetupFacts& facts);

}  // namespace tally::app
