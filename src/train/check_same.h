#pragma once
#include <string>
#include <vector>

#include "tally/communicator.h"
#include "train/parameter_layout.h"

namespace tally::train {

// Something that must be the same on all ranks, as lines of text, and how it is called.
struct Sameness {
  std::string what;  // "models"
  std::string item;  // "parameter"
  std::vector<std::string> lines;
};

// kMismatch, on all ranks alike, if a rank's lines are not those of rank 0: names the lowest such
// rank and the first line that differs. Called by all ranks.
Result<void> check_same(Communicator& world, const Sameness& sameness, Deadline by);

// "conv1.weight float32 [6, 1, 5, 5]".
std::string to_string(const ParameterInfo& parameter);

}  // namespace tally::train
