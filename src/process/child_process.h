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

// How a process ended: with an exit code, or by a signal (then `signal` is not 0).
struct ExitStatus {
  int code = 0;
  int signal = 0;
  bool ok() const { return code == 0 && signal == 0; }
};

// From a status of waitpid() for a process that has ended.
ExitStatus exit_status(int status);

// "exited with code 3", "was killed by signal 9 (Killed)".
std::string to_string(const ExitStatus& status);

struct ChildOptions {
  std::vector<std::string>
      command;           // the program (a path, or a name to look up in PATH) and its arguments
  Variables variables;   // added to the environment of this process
  std::string log_file;  // stdout and stderr are appended here; empty: inherited
  std::string folder;    // working directory; empty: inherited
};

// A child process in a process group of its own, with an empty stdin. The destructor kills the
// group; the process is also killed when this process dies in any way. Threads: one at a time.
// start() is called on a thread that outlives the child.
class ChildProcess final {
 public:
  static Result<std::unique_ptr<ChildProcess>> start(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Returns how the process ended; nothing while it runs.
  std::optional<ExitStatus> poll();
  // The same, waiting until the process ends or `by` passes.
  std::optional<ExitStatus> wait(Deadline by);
  // Signals the whole process group.
  void signal(int number);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<ExitStatus> ended_;
};

// Returns the path of a program: `name` itself if it has a slash, else the first match in PATH.
std::optional<std::string> find_program(const std::string& name);

// Returns the path of the running program, and that of a program in the same folder.
std::string own_program();
std::string program_beside(const std::string& name);

// Runs a short command to its end and returns its output. kSystem, with the output in the message,
// unless it exits with 0 before `by` and before an interruption.
Result<std::string> output_of(const std::vector<std::string>& command, Deadline by);

}  // namespace tally::process
