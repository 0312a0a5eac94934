// The program that `tally train` and the commands that use trained models execute: the part of the
// command line that needs libtorch.
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/tally/commands.h"
#include "apps/tally/launch/launcher.h"
#include "apps/train/train_commands.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words.front();
  ::signal(SIGPIPE, SIG_IGN);
  if (command == "host-agent") return tally::launch::run_agent();
  static const std::map<std::string, int (*)(const std::vector<std::string>&)> kCommands = {
      {"train", tally::app::run_train_command},
      {"predict", tally::app::run_predict_command},
      {"generate", tally::app::run_generate_command},
      {"eval", tally::app::run_eval_command},
      {"export", tally::app::run_export_command}};
  const auto run = kCommands.find(command);
  if (run == kCommands.end()) {
    fmt::print(stderr, "tally-train is a part of tally: call `tally train`\n");
    return tally::app::kWrongUsage;
  }
  int code = 1;
  try {
    code = run->second({words.begin() + 1, words.end()});
  } catch (const std::exception& error) {
    // For example, a model that does not fit into memory. libtorch adds stacks to its messages.
    const std::string what = error.what();
    if (!tally::app::output_reader_gone())
      fmt::print(stderr, "tally {}: {}\n", command, what.substr(0, what.find('\n')));
  }
  return tally::app::finish_output("tally " + command, code);
}
