#pragma once
#include <string>
#include <vector>

#include "apps/tally/command_line.h"

// Each function adds one command of `tally`, with the hidden commands for its own processes.
namespace tally::app {

// `tally run`. `program`: the words after "--".
void add_run_command(Command top, const std::vector<std::string>& program);
// `tally train word2vec`: checks the options and starts the workers, or is one of them. `words`:
// the whole command line, for the workers; the caller owns it.
void add_word2vec_command(Command train, const std::vector<std::string>& words);
void add_data_command(Command top);
void add_eval_command(Command top);
void add_doctor_command(Command top);
void add_status_command(Command top);
void add_serve_command(Command top);
void add_inspect_trace_command(Command inspect);
void add_inspect_checkpoint_command(Command inspect);

void add_bench_allreduce_command(Command bench, Command top);
void add_bench_server_command(Command bench, Command top);
void add_bench_startup_command(Command bench, Command top);
void add_bench_word2vec_command(Command bench);
void add_bench_policy_command(Command bench);
void add_bench_codec_command(Command bench);
void add_simulate_command(Command bench);

// One line about word2vec for the list of recipes.
inline constexpr const char* kWord2vecDescription =
    "word vectors by skip-gram with negative sampling; needs no libtorch";

}  // namespace tally::app
