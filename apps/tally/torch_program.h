#pragma once
#include <optional>
#include <string>
#include <vector>

namespace tally::app {

// Returns the words for tally-train if the command line belongs to it: `train ...`, `bench train
// ...` and `bench compress ...`, except recipes that need no libtorch. Nothing for other commands.
std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words);

// Whether these words ask for the list of recipes.
bool lists_recipes(const std::vector<std::string>& words);

// Executes tally-train, which lies beside this program. Returns only if that fails: the exit code,
// after a message. Recipes that tally-train does not know are added to a list of recipes.
int become_torch_program(std::vector<std::string> words);

}  // namespace tally::app
