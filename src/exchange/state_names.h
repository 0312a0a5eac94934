#pragma once
#include <string>
#include <vector>

#include "exchange/memory/parameter_layout.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// Half types are updated in a copy of type float32, the master copy.
bool has_master(const ParameterInfo& parameter);

// The names of a parameter's optimizer state arrays in checkpoints, in the order of
// SliceState::state.
std::vector<std::string> state_names_of(const ParameterInfo& parameter,
                                        const OptimizerSpec& optimizer);

}  // namespace tally::exchange
