#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tally/communicator.h"

namespace tally::app {

// How algorithms are called on the command line.
std::vector<std::string> algorithm_names();
std::optional<Algorithm> parse_algorithm(const std::string& name);

}  // namespace tally::app
