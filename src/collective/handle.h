#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "tally/communicator.h"

namespace tally {

namespace collective {

// Advances started operations on the thread that waits for them, where no other thread does.
class HandleDriver {
 public:
  virtual ~HandleDriver() = default;
  // Advances without waiting; whether anything moved.
  virtual bool advance() = 0;
  // Sleeps until advance() may move something.
  virtual void rest() = 0;
};

}  // namespace collective

// The outcome of a started operation, once there is one, and the callbacks that wait for it.
class Handle::State {
 public:
  // `driver`: null where the operation is advanced without its waiters; otherwise it lives until
  // complete().
  explicit State(collective::HandleDriver* driver = nullptr) : driver_(driver) {}

  void complete(Result<void> outcome);
  Result<void> wait();
  bool poll();
  void then(std::function<void(const Result<void>&)> next);

 private:
  bool ended();

  collective::HandleDriver* const driver_;
  Mutex mutex_;
  ConditionVariable completed_;
  std::optional<Result<void>> outcome_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::function<void(const Result<void>&)>> next_ TALLY_GUARDED_BY(mutex_);
};

// The handle of an operation that has ended already.
Handle ended_handle(Result<void> outcome);

}  // namespace tally
