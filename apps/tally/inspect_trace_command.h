#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally inspect trace`. The exit code is left in `exit_code`.
void add_inspect_trace_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
