#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tally::app {

// Adds `bench`, and the hidden `bench-worker` that it starts its workers with, to `parent`, the
// program itself. `exit_code` gets the outcome when one of them was called.
void add_bench_command(CLI::App& parent, int& exit_code);

// The same as a whole command line: `bench ...` or `bench-worker ...`. Returns the exit code.
int run_bench_command(const std::vector<std::string>& words);

}  // namespace tally::app
