#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace tally::app {

// `tally bench policy`: what update policies are worth when workers are slow.
void add_bench_policy_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
