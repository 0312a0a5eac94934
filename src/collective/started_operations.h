#pragma once
#include <vector>

#include "collective/handle.h"
#include "collective/operation_queue.h"
#include "net/router.h"

namespace tally::collective {

// The started operations of all communicators of one rank where no thread may run beside the rank's
// own. They advance whenever the rank waits for any operation, as if each queue had a thread.
// Threads: the rank's own.
class StartedOperations final : public HandleDriver {
 public:
  explicit StartedOperations(net::Router& router) : router_(router) {}

  void add(OperationQueue& queue) { queues_.push_back(&queue); }
  void remove(OperationQueue& queue) { std::erase(queues_, &queue); }

  // Nothing is queued or in progress.
  bool idle() const;
  bool advance() override;
  void rest() override { rest(Deadline::never()); }
  // As rest(), but at most until `by`.
  void rest(Deadline by);

  // For a caller that waits for an operation of its own as well, with Router::mutex held:
  // diagnose() checks the blocked operations and returns the time of the next check.
  Deadline diagnose();
  bool ready() const;

 private:
  net::Router& router_;
  std::vector<OperationQueue*> queues_;
};

}  // namespace tally::collective
