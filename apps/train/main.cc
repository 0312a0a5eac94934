// The program that `tally train` executes: the part of the command line that needs libtorch.
#include <csignal>
#include <cstdio>
#include <exception>
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
  if (command != "train") {
    fmt::print(stderr, "tally-train is a part of tally: call `tally train`\n");
    return tally::app::kWrongUsage;
  }
  int code = 1;
  try {
    code = tally::app::run_train_command({words.begin() + 1, words.end()});
  } catch (const std::exception& error) {
    // For example, a model that does not fit into memory. libtorch adds stacks to its messages.
    const std::string what = error.what();
    fmt::print(stderr, "tally train: {}\n", what.substr(0, what.find('\n')));
  }
  // The buffered output may not fit, as on a full disk.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "tally train: cannot write all of the output\n");
  return code == 0 ? 1 : code;
}
