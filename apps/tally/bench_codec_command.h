#pragma once

namespace CLI {
class App;
}

namespace tally::app {

// `tally bench codec`: how fast gradient codecs are, how small and how exact what they make is.
void add_bench_codec_command(CLI::App& parent, int& exit_code);

}  // namespace tally::app
