#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/build_info.h"
#include "apps/tally/commands.h"

namespace {

constexpr const char* kFooter = R"(
Examples:
  tally run -n 4 -- ./my_program --its --arguments
  tally train lenet --data fashion-mnist --workers 2
  tally train word2vec --data imdb --workers 2 --output imdb.bin
  tally bench allreduce --ranks 2 --bytes 4KiB,1MiB --against gloo,openmpi
  tally bench simulate --ranks 64 --bytes 100MiB
  tally report run1.json run2.json --to comparison.html
  tally predict runs/lenet --input shoe.png
  tally data get fashion-mnist
  tally doctor
  tally status --watch
  tally inspect trace --output trace.json
  tally inspect checkpoint runs/a

Exit codes: 0 success; 1 a failure, which was reported; 2 wrong usage; 130 interrupted.
The help of `tally run` lists further exit codes.)";

// The parent may have closed a standard stream: the next file that is opened would get its number
// and the output for users. A reader that goes away is an error of write(), not a signal.
void secure_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // open() takes the lowest free number, which is this one.
    [[maybe_unused]] const int opened = ::open("/dev/null", stream == 0 ? O_RDONLY : O_WRONLY);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tally::app;
  secure_streams();
  const std::vector<std::string> all_words(argv + 1, argv + argc);
  if (const auto words = torch_program_words(all_words)) return become_torch_program(*words);
  // The words after "--" are the command line of the program that `tally run` starts.
  const bool runs = !all_words.empty() && all_words.front() == "run";
  const auto dashes = runs ? std::find(all_words.begin(), all_words.end(), "--") : all_words.end();
  const bool has_dashes = dashes != all_words.end();
  const std::vector<std::string> program(has_dashes ? dashes + 1 : dashes, all_words.end());

  CommandLine line("Tally: the gradients of many workers become one model.", "tally");
  line.version(fmt::format("tally {} ({})", kVersion, kCommit));
  Command top = line.top();
  top.require_command();
  add_run_command(top, program);

  Command train =
      top.add_command("train", "Train a model with several workers: tally train RECIPE [OPTIONS]");
  add_word2vec_command(train, all_words);

  Command bench = top.add_command("bench", "Measure performance; results are checked first");
  bench.require_command();
  add_bench_allreduce_command(bench, top);
  add_simulate_command(bench);
  add_bench_server_command(bench, top);
  add_bench_startup_command(bench, top);
  add_bench_word2vec_command(bench);
  add_bench_policy_command(bench);
  add_bench_codec_command(bench);
  bench.add_command("train", "Training beside PyTorch, its DDP and one worker");
  bench.add_command("compress", "Gain of codecs between two hosts, by the speed of the link");

  top.add_command("predict", "Predict with a trained model: tally predict RUN --input FILE...");
  top.add_command("generate", "Continue a text with a trained gpt");
  top.add_command("export", "Write a trained model as a file for other programs");
  add_data_command(top);
  add_eval_command(top);
  add_report_command(top);
  add_doctor_command(top);
  add_status_command(top);
  Command inspect = top.add_command("inspect", "Show a running job or a checkpoint");
  inspect.require_command();
  add_inspect_trace_command(inspect);
  add_inspect_checkpoint_command(inspect);
  add_serve_command(top);

  top.footer(kFooter);
  std::optional<int> exit_code;
  try {
    exit_code = line.run({all_words.begin(), dashes});
  } catch (const std::system_error& error) {
    // The output could not be written.
    if (!output_reader_gone()) fmt::print(stderr, "tally: {}\n", error.what());
    return 1;
  }
  if (!exit_code) {
    if (runs && !has_dashes)
      fmt::print(stderr,
                 "The program and its arguments stand after --, as in: tally run -n 2 -- ./prog\n");
    return kWrongUsage;
  }
  return finish_output("tally", *exit_code);
}
