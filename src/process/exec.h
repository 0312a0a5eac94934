#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

// The parts of fork() and exec that every start of a program needs.
namespace tally::process {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Replaces the variable of that name, or adds it.
void set_variable(Variables& variables, const std::string& name, std::string value);

// The environment of this process, with `variables` replacing entries of the same name.
std::vector<std::string> environment_with(const Variables& variables);

// A null-terminated array of pointers for exec. The pointers refer to `texts`.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

struct Pipe {
  Descriptor read;
  Descriptor write;
};
Result<Pipe> make_pipe();
void make_non_blocking(const Descriptor& descriptor);

// Sets the signals that this program handles back to their defaults. Safe between fork and exec.
void restore_signals();

// The first call in a forked child: it leads a process group of its own, is killed when `parent`
// dies, and has default signal handling. Safe between fork and exec.
void become_child_of(pid_t parent);

// Both parent and child call setpgid(), so that the group exists whichever of them runs first.
void make_group_leader(pid_t child);

// Waits for `child` to end, however often signals interrupt the wait.
void reap(pid_t child);

}  // namespace tally::process
