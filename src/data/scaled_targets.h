#pragma once
#include <memory>

#include "data/dataset.h"
#include "data/preprocessing.h"

namespace tally::data {

// The mean and deviation of the targets of a dataset, which are float32 numbers.
Result<TargetScale> measure_targets(const Dataset& dataset);

// The same samples with scaled targets; preprocessing() has the scale.
std::unique_ptr<Dataset> scale_targets(std::unique_ptr<Dataset> dataset, const TargetScale& scale);

}  // namespace tally::data
