#pragma once

namespace tally::process {

// While an object exists, SIGINT, SIGTERM and SIGHUP are recorded instead of ending the process, so
// that loops can end their children and leave. One at a time, in the main thread.
class InterruptGuard final {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// Returns the last recorded signal, 0 if none. Threads: safe.
int interrupted();

// The usual exit code of a program that was interrupted.
inline constexpr int kInterruptedExitCode = 130;

}  // namespace tally::process
