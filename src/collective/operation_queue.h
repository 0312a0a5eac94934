#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "collective/task.h"
#include "tally/communicator.h"

namespace tally::collective {

class StartedOperations;

// Runs started operations in its own thread, or on the threads that wait for them, for every kind
// of communicator. Collectives run one after the other in the order of issue; sends and receives
// run beside them.
class OperationQueue {
 public:
  static constexpr std::size_t kCapacity = 4096;

  // An operation in progress.
  class Operation {
   public:
    virtual ~Operation() = default;
    // Does all that can be done without waiting for long. kComplete: this rank's part is done.
    virtual Result<Progress> advance() = 0;
    // Called once, at the end: after kComplete, an error of advance(), or kClosed.
    virtual void conclude(const Result<void>& outcome) = 0;
  };

  // A request with copies of its counts, and its operation once that is in progress.
  struct Item {
    Request request;
    std::vector<std::size_t> counts;
    std::vector<std::size_t> receive_counts;
    Deadline by;
    std::shared_ptr<Handle::State> state;  // shared with the caller's Handles
    std::unique_ptr<Operation> operation;
  };

  // The communicator that the queue belongs to. prepare() and rest() are called by the queue's
  // thread only, or, without one, by the thread that waits.
  class Runner {
   public:
    virtual ~Runner() = default;
    virtual Deadline deadline_of(const Request& request) const = 0;
    // Begins an operation. `request` stays until conclude().
    virtual Result<std::unique_ptr<Operation>> prepare(const Request& request, Deadline by) = 0;
    // Pauses after no operation of `running` moved, for the `looks`th time in a row, counted from
    // 0. Returns early when an operation can move, after wake(), and when the queue has_new().
    virtual void rest(OperationQueue& queue, const std::list<Item>& running, int looks) = 0;
    // Ends a rest(). Any thread.
    virtual void wake() {}
    // For a queue without a thread, which has no rest(): checks the blocked operations and returns
    // the time of the next check, and whether one of them can move.
    virtual Deadline diagnose(const std::list<Item>& /*running*/) { return Deadline::never(); }
    virtual bool ready(const std::list<Item>& /*running*/) const { return true; }
  };

  // With `started` the queue has no thread and joins those queues, which outlive it.
  explicit OperationQueue(Runner& runner, StartedOperations* started = nullptr);
  // Ends the thread. Operations that are queued or in progress end with kClosed; an advance() that
  // waits is waited for.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  Handle push(const Request& request);
  // Nothing is queued or in progress.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

  // For rest(): whether a request may begin now, and a wait for one.
  bool has_new();
  void wait_for_new(Duration at_most);

  // For a queue without a thread: begins and advances operations without waiting; whether any
  // moved. While this function runs, calls from a callback do nothing.
  bool advance();
  Deadline diagnose() { return advancing_ ? Deadline::never() : runner_.diagnose(running_); }
  bool ready() const { return !advancing_ && runner_.ready(running_); }

 private:
  void work(const std::stop_token& stop);
  // Moves requests that may begin from the queue to `running_`; the queue's thread waits for one if
  // nothing runs. Returns whether there was one.
  bool take_new(const std::stop_token& stop);
  bool is_busy() const;  // whether a collective runs
  bool can_begin() const TALLY_REQUIRES(mutex_);
  bool advance_running();
  void end_all();
  void finish(Item& item, const Result<void>& outcome);

  Runner& runner_;
  StartedOperations* const started_;
  Mutex mutex_;
  ConditionVariable arrived_;
  std::list<Item> queue_ TALLY_GUARDED_BY(mutex_);
  std::atomic<std::size_t> pending_{0};
  std::list<Item> running_;  // of the thread that advances
  bool advancing_ = false;   // inside advance()
  std::jthread thread_;
};

}  // namespace tally::collective
