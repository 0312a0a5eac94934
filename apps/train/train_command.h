#pragma once
#include <string>
#include <vector>

namespace tally::app {

// `tally train ...`: `words` are what follows "train". Checks everything and starts the workers, or
// is one of them where a launcher's variables say so. Returns the exit code.
int run_train_command(const std::vector<std::string>& words);

}  // namespace tally::app
