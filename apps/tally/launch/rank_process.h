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
  std::vector<std::string> command;      // a path, or a name to look up in PATH; arguments
  std::vector<std::string> environment;  // the whole environment as "NAME=VALUE"
  std::vector<int> cpus;                 // processors to bind to; empty: not bound
};

// A started rank: it leads a process group of its own, has an empty stdin, and is killed when this
// process dies. Its pipes do not block.
struct RankProcess {
  pid_t pid = -1;
  Descriptor output;
  Descriptor errors;
};

// Why no program runs, with the exit code of a shell: 127 not found, 126 not executable.
struct StartFailure {
  int code = 126;
  std::string note;
};

// Starts a program. Waits for exec, so that a program that cannot run is reported at once.
std::variant<RankProcess, StartFailure> start_rank(const RankOptions& options);

using process::environment_with;
using process::make_non_blocking;
using process::make_pipe;
using process::Pipe;
using process::pointers_to;
using process::restore_signals;
using process::set_variable;

}  // namespace tally::launch
