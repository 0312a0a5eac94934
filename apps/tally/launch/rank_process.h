#pragma once
#include <sys/types.h>

#include <string>
#include <variant>
#include <vector>

#include "apps/tally/launch/messages.h"
#include "base/descriptor.h"
#include "process/exec.h"
#include "tally/error.h"

namespace tally::launch {

struct RankOptions {
  std::vector<std::string> command;      // a path, or a name to be looked for in PATH; arguments
  std::vector<std::string> environment;  // "NAME=VALUE", all of it
  std::vector<int> cpus;                 // to be bound to; empty: as we are
};

// A rank just started: leader of a process group of its own, with nothing to read. It is killed
// when we die. The ends of its pipes do not block.
struct RankProcess {
  pid_t pid = -1;
  Descriptor output;
  Descriptor errors;
};

// Why no program runs, and the code that a shell would exit with: 127 not found, 126 not
// executable.
struct StartFailure {
  int code = 126;
  std::string note;
};

// Starts a program. Waits until the kernel has taken it, so that what cannot run is told at once.
std::variant<RankProcess, StartFailure> start_rank(const RankOptions& options);

using process::environment_with;
using process::make_non_blocking;
using process::make_pipe;
using process::Pipe;
using process::pointers_to;
using process::restore_signals;
using process::set_variable;

}  // namespace tally::launch
