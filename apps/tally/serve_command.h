#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally serve`. The exit code is left in `exit_code`.
void add_serve_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
