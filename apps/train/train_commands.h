#pragma once
#include <string>
#include <vector>

// The commands of tally-train and tally-bench-train. Each takes the words after its own name and
// returns the exit code.
namespace tally::app {

// `tally train RECIPE`: checks the options and starts the workers, or is one of them.
int run_train_command(const std::vector<std::string>& words);

// Commands that use a trained model, apps/train/use.
int run_predict_command(const std::vector<std::string>& words);
int run_generate_command(const std::vector<std::string>& words);
int run_eval_command(const std::vector<std::string>& words);
int run_export_command(const std::vector<std::string>& words);

// `tally bench train`, and the hidden bench-worker that it starts. `words` begin with the name of
// the command.
int run_bench_command(const std::vector<std::string>& words);

// `tally bench compress`.
int run_compress_command(const std::vector<std::string>& words);

}  // namespace tally::app
