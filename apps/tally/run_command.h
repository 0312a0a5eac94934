#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tally::app {

// `tally run` and the hidden `tally host-agent` that it starts. `program` is what stands after "--"
// on the command line.
void add_run_command(CLI::App& parent, const std::vector<std::string>& program, int& exit_code);

}  // namespace tally::app
