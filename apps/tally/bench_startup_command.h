#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally bench startup` below `bench`, and the hidden `tally startup-worker` below `top`.
void add_bench_startup_command(CLI::App& bench, CLI::App& top, int& exit_code);

}  // namespace tally::app
