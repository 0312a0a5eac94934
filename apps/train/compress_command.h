#pragma once
#include <string>
#include <vector>

namespace tally::app {

// `tally bench compress ...`: `words` are what follows. Returns the exit code.
int run_compress_command(const std::vector<std::string>& words);

}  // namespace tally::app
