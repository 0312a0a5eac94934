#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace tally::app {

// `tally bench allreduce`: our all-reduce beside that of Gloo, Open MPI and MPICH, in one run.
// The command's outcome is put into `exit_code`.
void add_bench_allreduce_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
