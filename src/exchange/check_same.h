#pragma once
#include <string>
#include <vector>

#include "exchange/memory/parameter_layout.h"
#include "tally/checkpoint.h"
#include "tally/communicator.h"

namespace tally::exchange {

// Settings that must be equal on all ranks, as lines of text, and their names for error messages.
struct Sameness {
  std::string what;  // "models"
  std::string item;  // "parameter"
  std::vector<std::string> lines;
};

// Compares the lines of all ranks with those of rank 0. kMismatch, the same on all ranks, names the
// lowest rank that differs and its first line that differs. Called by all ranks.
Result<void> check_same(Communicator& world, const Sameness& sameness, Deadline by);

// "conv1.weight float32 [6, 1, 5, 5]", and the group of a parameter behind it.
std::string to_string(const checkpoint::TensorInfo& tensor);
std::string to_string(const ParameterInfo& parameter);

}  // namespace tally::exchange
