#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/bench_allreduce_command.h"
#include "apps/tally/bench_codec_command.h"
#include "apps/tally/bench_policy_command.h"
#include "apps/tally/bench_server_command.h"
#include "apps/tally/bench_startup_command.h"
#include "apps/tally/bench_word2vec_command.h"
#include "apps/tally/bench_worker_command.h"
#include "apps/tally/build_info.h"
#include "apps/tally/data_command.h"
#include "apps/tally/doctor_command.h"
#include "apps/tally/eval_command.h"
#include "apps/tally/inspect_checkpoint_command.h"
#include "apps/tally/inspect_trace_command.h"
#include "apps/tally/run_command.h"
#include "apps/tally/serve_command.h"
#include "apps/tally/simulate_command.h"
#include "apps/tally/status_command.h"
#include "apps/tally/torch_program.h"
#include "apps/tally/word2vec_command.h"

namespace {

constexpr int kWrongUsage = 2;

constexpr const char* kFooter = R"(
Examples:
  tally run -n 4 -- ./my_program --its --arguments
  tally train lenet --data fashion-mnist --workers 2
  tally train word2vec --data imdb --workers 2 --output imdb.bin
  tally bench allreduce --ranks 2 --bytes 4KiB,1MiB --against gloo,openmpi
  tally bench simulate --ranks 64 --bytes 100MiB
  tally data get fashion-mnist
  tally doctor
  tally status --watch
  tally inspect trace --output trace.json
  tally inspect checkpoint runs/a

Exit codes: 0 all went well; 1 something failed, and was reported; 2 wrong usage; 130 interrupted.
`tally run` has more: see its help.)";

// Whoever started us may have closed a standard stream: the next file to be opened would get its
// number, and what is meant for people. A reader that goes is an error of write(), and ends nobody.
void secure_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free is this one.
    [[maybe_unused]] const int opened = ::open("/dev/null", stream == 0 ? O_RDONLY : O_WRONLY);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

// What a newcomer may have meant.
std::string hint_for(const CLI::App& app, const std::string& word, bool no_dashes) {
  if (word == "run" && no_dashes)
    return "The program and its arguments stand after --, as in: tally run -n 2 -- ./prog\n";
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool known = std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
    return command->get_name() == word;
  });
  return known || word.rfind('-', 0) == 0 ? "" : fmt::format("There is no command {}.\n", word);
}

}  // namespace

int main(int argc, char** argv) {
  secure_streams();
  const std::vector<std::string> all_words(argv + 1, argv + argc);
  if (const auto words = tally::app::torch_program_words(all_words))
    return tally::app::become_torch_program(*words);
  // What stands after "--" is somebody else's command line, and not looked at.
  char** const end = argv + argc;
  const bool runs = argc > 1 && std::string_view(argv[1]) == "run";
  char** const dashes =
      runs ? std::find_if(argv, end, [](std::string_view word) { return word == "--"; }) : end;
  const std::vector<std::string> program(std::min(dashes + 1, end), end);
  argc = static_cast<int>(dashes - argv);

  CLI::App app("Tally: the gradients of many workers become one model.", "tally");
  app.set_version_flag("--version",
                       fmt::format("tally {} ({})", tally::app::kVersion, tally::app::kCommit));
  app.require_subcommand(1);
  int exit_code = 0;

  tally::app::add_run_command(app, program, exit_code);

  CLI::App& train = *app.add_subcommand(
      "train", "Train a model with several workers: tally train RECIPE [OPTIONS]");
  tally::app::add_word2vec_command(train, all_words, exit_code);

  CLI::App& bench = *app.add_subcommand("bench", "Measure, with results checked first");
  bench.require_subcommand(1);
  tally::app::add_bench_allreduce_command(bench, exit_code);
  tally::app::add_simulate_command(bench, exit_code);
  tally::app::add_bench_server_command(bench, app, exit_code);
  tally::app::add_bench_startup_command(bench, app, exit_code);
  tally::app::add_bench_word2vec_command(bench, exit_code);
  tally::app::add_bench_policy_command(bench, exit_code);
  tally::app::add_bench_codec_command(bench, exit_code);
  bench.add_subcommand("train", "Training beside PyTorch's DDP and beside one worker");
  bench.add_subcommand("compress", "What codecs are worth between two hosts, by the link's speed");

  tally::app::add_data_command(app, exit_code);
  tally::app::add_eval_command(app, exit_code);
  tally::app::add_doctor_command(app, exit_code);
  tally::app::add_status_command(app, exit_code);
  CLI::App& inspect = *app.add_subcommand("inspect", "Look into a running job or a checkpoint");
  inspect.require_subcommand(1);
  tally::app::add_inspect_trace_command(inspect, exit_code);
  tally::app::add_inspect_checkpoint_command(inspect, exit_code);
  tally::app::add_serve_command(app, exit_code);

  tally::app::add_bench_worker_command(app, exit_code);

  app.footer(kFooter);  // not before: commands would inherit it
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return 0;
    if (argc > 1) fmt::print(stderr, "{}", hint_for(app, argv[1], dashes == end));
    return kWrongUsage;
  }
  // What stands in the buffer may find no place, as on a full disk.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  fmt::print(stderr, "tally: cannot write all of the output\n");
  return exit_code == 0 ? 1 : exit_code;
}
