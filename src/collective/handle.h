#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "tally/communicator.h"

namespace tally {

// The outcome of a started operation, once there is one, and the callbacks that wait for it.
class Handle::State {
 public:
  void complete(Result<void> outcome);
  Result<void> wait();
  bool poll();
  void then(std::function<void(const Result<void>&)> next);

 private:
  Mutex mutex_;
  ConditionVariable completed_;
  std::optional<Result<void>> outcome_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::function<void(const Result<void>&)>> next_ TALLY_GUARDED_BY(mutex_);
};

// The handle of an operation that has ended already.
Handle ended_handle(Result<void> outcome);

}  // namespace tally
