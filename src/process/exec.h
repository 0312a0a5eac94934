#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <array>
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

// Makes these descriptors the stdin, stdout and stderr of a forked child; -1: inherited. Safe
// between fork and exec.
void connect_streams(const std::array<int, 3>& streams);

// The first call in a forked child: it leads a process group of its own, is killed when `parent`
// dies, and has default signal handling. Safe between fork and exec.
void become_child_of(pid_t parent);

// Forks a child that begins with become_child_of() and then calls `exec`, where only
// async-signal-safe calls are allowed; it exits with 127 if `exec` returns. Returns its pid, or -1
// with the reason in errno.
template <typename Exec>
pid_t fork_child(const Exec& exec) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become_child_of(parent);
    exec();
    ::_exit(127);
  }
  // Both call setpgid(), so that the group exists whichever of them runs first.
  if (child > 0) ::setpgid(child, child);
  return child;
}

// Waits for `child` to end, however often signals interrupt the wait.
void reap(pid_t child);

}  // namespace tally::process
