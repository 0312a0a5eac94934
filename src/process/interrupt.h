#pragma once

namespace tally::process {

// While one lives, SIGINT, SIGTERM and SIGHUP do not end the process but are noted, so that loops
// can leave in good order and kill what they started. One at a time, in the main thread.
class InterruptGuard final {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// The signal that was noted last, 0 if none. Threads: safe.
int interrupted();

// What a shell expects of a program that was interrupted.
inline constexpr int kInterruptedExitCode = 130;

}  // namespace tally::process
