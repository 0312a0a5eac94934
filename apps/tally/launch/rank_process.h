#pragma once
#include <sys/types.h>

#include <string>
#include <variant>
#include <vector>

#include "apps/tally/launch/messages.h"
#include "base/descriptor.h"
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

// In place of one with the same name, or added.
void set_variable(Variables& variables, const std::string& name, std::string value);

// Our own environment with `variables` in place of what has the same name.
std::vector<std::string> environment_with(const Variables& variables);

// Pointers as exec wants them, with a null at the end. Borrows.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

struct Pipe {
  Descriptor read;
  Descriptor write;
};
Result<Pipe> make_pipe();
void make_non_blocking(const Descriptor& descriptor);

// Puts every signal that this program treats specially back to what a new program expects. Safe
// between fork and exec.
void restore_signals();

}  // namespace tally::launch
