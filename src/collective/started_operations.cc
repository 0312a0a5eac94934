#include "collective/started_operations.h"

#include <algorithm>

namespace tally::collective {

bool StartedOperations::idle() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const OperationQueue* queue) { return queue->idle(); });
}

bool StartedOperations::advance() {
  if (idle()) return false;
  bool moved = false;
  {
    // An operation in shared memory does not progress the transport, which lets time pass for a
    // caller that polls.
    const MutexLock lock(router_.mutex);
    moved = router_.progress();
  }
  // Callbacks of operations that end here may make and destroy other communicators.
  for (std::size_t i = 0; i < queues_.size(); ++i) moved |= queues_[i]->advance();
  return moved;
}

void StartedOperations::rest(Deadline by) {
  const MutexLock lock(router_.mutex);
  by = earlier(by, diagnose());
  router_.wait(by, [this] { return ready(); });
}

Deadline StartedOperations::diagnose() {
  Deadline by = Deadline::never();
  for (OperationQueue* const queue : queues_) by = earlier(by, queue->diagnose());
  return by;
}

bool StartedOperations::ready() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const OperationQueue* queue) { return queue->ready(); });
}

}  // namespace tally::collective
