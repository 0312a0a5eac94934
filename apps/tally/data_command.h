#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally data list | get | check`.
void add_data_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
