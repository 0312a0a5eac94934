#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally bench server`, and the worker that it starts, which `app` has unlisted.
void add_bench_server_command(CLI::App& bench, CLI::App& app, int& exit_code);

}  // namespace tally::app
