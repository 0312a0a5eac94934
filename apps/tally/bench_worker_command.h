#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace tally::app {

// `tally bench-worker`, hidden: one rank of our own contender, started by `tally bench allreduce`.
// The command's outcome is put into `exit_code`.
void add_bench_worker_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
