#pragma once
#include <optional>
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
void add_report_command(Command top);
void add_inspect_trace_command(Command inspect);
void add_inspect_checkpoint_command(Command inspect);

void add_bench_allreduce_command(Command bench, Command top);
void add_bench_server_command(Command bench, Command top);
void add_bench_startup_command(Command bench, Command top);
void add_bench_word2vec_command(Command bench);
void add_bench_policy_command(Command bench);
void add_bench_codec_command(Command bench);
void add_simulate_command(Command bench);

// Other commands need libtorch, and belong to two other programs.

// Returns the words for such a program if the command line belongs to one: tally-train for
// `train ...`, except recipes that need no libtorch, and for `predict`, `generate`, `export` and
// `eval RUN`; tally-bench-train for `bench train ...` and `bench compress ...`. Nothing for other
// commands.
std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words);

// Whether these words ask for the list of recipes.
bool lists_recipes(const std::vector<std::string>& words);

// Executes the program for these words, which lies beside this program. Returns only if that fails:
// the exit code, after a message. Recipes that tally-train does not know are added to a list of
// recipes.
int become_torch_program(std::vector<std::string> words);

// One line about word2vec for the list of recipes.
inline constexpr const char* kWord2vecDescription =
    "word vectors by skip-gram with negative sampling; needs no libtorch";

}  // namespace tally::app
