#pragma once
#include <optional>

#include "base/descriptor.h"

namespace tally::launch {

// While an object exists, SIGINT, SIGTERM, SIGHUP and SIGTSTP are queued at a descriptor instead of
// being delivered, and SIGPIPE is ignored. A signal that was ignored before (nohup) stays ignored.
// One object at a time, created before any thread.
class LaunchSignals final {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  // Readable while a signal is queued.
  int descriptor() const { return waiting_.descriptor(); }
  std::optional<int> next();

 private:
  Descriptor waiting_;
};

}  // namespace tally::launch
