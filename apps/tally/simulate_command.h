#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// Adds `simulate` to `bench`: how long an all-reduce would take on a modelled cluster, by
// algorithm, simulated message by message and by formula. Sets `exit_code` when it runs.
void add_simulate_command(CLI::App& bench, int& exit_code);

}  // namespace tally::app
