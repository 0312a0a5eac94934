#pragma once
#include <optional>
#include <string>
#include <vector>

namespace tally::app {

// The words that tally-train is started with for those of our command line that belong to it: `train ...` and
// `bench train ...`. Nothing for other commands.
std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words);

// Becomes tally-train, which lies beside this program. Returns only if that is not there: the exit code, after saying
// why.
int become_torch_program(std::vector<std::string> words);

}  // namespace tally::app
