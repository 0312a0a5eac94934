#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tally::app {

// `tally train word2vec`: checks, starts the workers, or is one. `words` are those of the whole
// command line, for the workers, and stay the caller's.
void add_word2vec_command(CLI::App& train, const std::vector<std::string>& words, int& exit_code);

// For the list of recipes: what word2vec is, in a line.
inline constexpr const char* kWord2vecDescription =
    "word vectors by skip-gram with negative sampling; needs no libtorch";

}  // namespace tally::app
