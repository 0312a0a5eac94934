#pragma once
#include <optional>
#include <string>
#include <vector>

namespace tally::app {

// The words that tally-train is started with for those of our command line that belong to it:
// `train ...`, `bench train ...` and `bench compress ...`, but for the recipes that need no
// libtorch. Nothing for other commands.
std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words);

// Whether these words ask for the list of recipes.
bool lists_recipes(const std::vector<std::string>& words);

// Becomes tally-train, which lies beside this program. Returns only if that is not there: the exit
// code, after saying why. What tally-train does not know of is added to a list of recipes.
int become_torch_program(std::vector<std::string> words);

}  // namespace tally::app
