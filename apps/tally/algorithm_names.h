#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tally/communicator.h"
#include "tally/job.h"

namespace tally::app {

// Names of algorithms on the command line.
std::vector<std::string> algorithm_names();
std::optional<Algorithm> parse_algorithm(const std::string& name);

// "tcp" and "tls"; every other text means shared memory.
TransportKind transport_kind(const std::string& text);

}  // namespace tally::app
