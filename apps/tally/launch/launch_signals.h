#pragma once
#include <optional>

#include "base/descriptor.h"

namespace tally::launch {

// While one lives, SIGINT, SIGTERM, SIGHUP and SIGTSTP are not delivered but wait at a descriptor,
// and SIGPIPE is ignored. A signal that was ignored before (nohup) stays so. One at a time; made
// before any thread.
class LaunchSignals final {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  // Readable while a signal waits.
  int descriptor() const { return waiting_.descriptor(); }
  std::optional<int> next();

 private:
  Descriptor waiting_;
};

}  // namespace tally::launch
