#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally status`. The exit code is left in `exit_code`.
void add_status_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
