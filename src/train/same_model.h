#pragma once
#include <vector>

#include "tally/communicator.h"
#include "train/parameter_layout.h"

namespace tally::train {

// kMismatch, on all ranks alike, if a rank's parameters are not those of rank 0: names the lowest such rank and the
// first parameter that differs in name, shape, type or group. Called by all ranks.
Result<void> check_same_model(Communicator& world, const std::vector<ParameterInfo>& parameters,
                              Deadline by);

// "conv1.weight float32 [6, 1, 5, 5]".
std::string to_string(const ParameterInfo& parameter);

}  // namespace tally::train
