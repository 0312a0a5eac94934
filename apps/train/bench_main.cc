// The program that `tally bench train` and `tally bench compress` execute: the benchmarks that need
// libtorch. It is a program of its own, so that building `tally train` does not build them.
#include <csignal>
#include <string>
#include <vector>

#include "apps/tally/launch/launcher.h"
#include "apps/train/train_commands.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words.front();
  ::signal(SIGPIPE, SIG_IGN);
  if (command == "host-agent") return tally::launch::run_agent();
  if (command == "bench-compress")
    return tally::app::run_compress_command({words.begin() + 1, words.end()});
  return tally::app::run_bench_command(words);
}
