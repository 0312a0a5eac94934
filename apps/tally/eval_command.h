#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally eval analogy` and `tally eval similarity`: how good word vectors are.
void add_eval_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
