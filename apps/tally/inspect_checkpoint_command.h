#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally inspect checkpoint`. The exit code is left in `exit_code`: 1 if the checkpoint is damaged.
void add_inspect_checkpoint_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
