#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally bench word2vec`.
void add_bench_word2vec_command(CLI::App& bench, int& exit_code);

}  // namespace tally::app
