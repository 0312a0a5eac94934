#pragma once
#include <string>

#include "tally/deadline.h"

namespace tally {

// The id of the calling thread, as in /proc/self/task. Cheap.
int this_thread_id();

// Captures the stacks of this process's threads by a real-time signal that nothing else uses. A
// captured thread is interrupted for some microseconds. A blocking system call is restarted, except
// those that Linux never restarts after a handler (sleep, poll and the like), which end early.
// State is global, as signals are: the first object installs the handler, the last one removes it.
class StackCapture {
 public:
  StackCapture();
  ~StackCapture();
  StackCapture(const StackCapture&) = delete;
  StackCapture& operator=(const StackCapture&) = delete;

  // "compute < train < main": the functions of the thread, innermost first. If the thread does not
  // answer in time, its state: "no stack: thread 12 is in uninterruptible sleep". Threads: calls
  // must not overlap.
  std::string of_thread(int thread, Duration limit) const;
};

}  // namespace tally
