#pragma once
#include <string>

#include "tally/deadline.h"

namespace tally {

// The id of the calling thread, as /proc/self/task has it. Cheap.
int this_thread_id();

// Lets stacks of this process's threads be seen while it lives: owns a real-time signal that nobody
// else uses. A thread that is asked is interrupted for some microseconds; system calls that it
// waits in go on, except those that no signal handler lets go on (sleep, poll and the like), which
// end early as after any other signal. State is global, as signals are: the first one installs the
// handler, the last one removes it.
class StackCapture {
 public:
  StackCapture();
  ~StackCapture();
  StackCapture(const StackCapture&) = delete;
  StackCapture& operator=(const StackCapture&) = delete;

  // "compute < train < main": the functions of that thread, innermost first. If they cannot be had
  // in time, what the system says of the thread: "no stack: thread 12 is in uninterruptible sleep".
  // Threads: one at a time.
  std::string of_thread(int thread, Duration limit) const;
};

}  // namespace tally
