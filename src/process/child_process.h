#pragma once
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/exec.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::process {

// How a process ended: by itself with a code, or by a signal (then `signal` is not 0).
struct ExitStatus {
  int code = 0;
  int signal = 0;
  bool ok() const { return code == 0 && signal == 0; }
};

// "exited with code 3", "was killed by signal 9 (Killed)".
std::string to_string(const ExitStatus& status);

struct ChildOptions {
  std::vector<std::string>
      command;           // the program (a path, or a name to be found in PATH), arguments
  Variables variables;   // added to the environment of this process
  std::string log_file;  // stdout and stderr are appended here; empty: they are ours
  std::string folder;    // where it runs; empty: where we do
};

// A process started by us, in a process group of its own, with nothing to read on stdin. Its group
// is killed when the object goes; the process itself also when we die in whatever way. Threads: one
// at a time. start() is called on a thread that outlives the child.
class ChildProcess final {
 public:
  static Result<std::unique_ptr<ChildProcess>> start(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // How it ended; nothing while it runs.
  std::optional<ExitStatus> poll();
  // The same, waiting until it ends or `by` passes.
  std::optional<ExitStatus> wait(Deadline by);
  // To the whole process group.
  void signal(int number);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<ExitStatus> ended_;
};

// Full path of a program: `name` itself if it has a slash, else the first match in PATH.
std::optional<std::string> find_program(const std::string& name);

// Path of the running program.
std::string own_program();

// Runs a short command to its end and returns what it printed. kSystem, with that output in the
// message, unless it ends with code 0 in time and before we are interrupted.
Result<std::string> output_of(const std::vector<std::string>& command, Deadline by);

}  // namespace tally::process
