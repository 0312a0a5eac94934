#pragma once
#include <optional>
#include <string>
#include <vector>

namespace tally::app {

// Returns the words for a program with libtorch if the command line belongs to one: tally-train for
// `train ...`, except recipes that need no libtorch, and tally-bench-train for `bench train ...` and
// `bench compress ...`. Nothing for other commands.
std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words);

// Whether these words ask for the list of recipes.
bool lists_recipes(const std::vector<std::string>& words);

// Executes the program for these words, which lies beside this program. Returns only if that fails:
// the exit code, after a message. Recipes that tally-train does not know are added to a list of
// recipes.
int become_torch_program(std::vector<std::string> words);

}  // namespace tally::app
