#pragma once
#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "collective/communicator.h"
#include "tally/communicator.h"

namespace tally::collective {

// Runs started operations on a thread of its own. Collectives run one after the other in the order
// of issue; sends and receives run beside them.
class OperationQueue {
 public:
  static constexpr std::size_t kCapacity = 4096;

  explicit OperationQueue(GroupCommunicator& communicator);
  // Ends the thread; queued operations end with kClosed.
  ~OperationQueue();

  Handle push(const Request& request);
  // Nothing is queued or under way.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  struct Item {
    Request request;
    std::vector<std::size_t> counts;  // storage of the request's spans
    std::vector<std::size_t> receive_counts;
    Deadline by;
    std::shared_ptr<Handle::State> state;  // shared with the caller's Handles
    std::unique_ptr<GroupCommunicator::Active> active;
  };

  void work(const std::stop_token& stop);
  // Moves the operations that may begin from the queue to `running`; waits if nothing is running.
  void take_new(std::list<Item>& running, const std::stop_token& stop);
  bool advance(std::list<Item>& running);
  void sleep(std::list<Item>& running);
  void finish(Item& item, const Result<void>& outcome);

  GroupCommunicator& communicator_;
  Mutex mutex_;
  ConditionVariable arrived_;
  std::deque<Item> queue_ TALLY_GUARDED_BY(mutex_);
  std::atomic<std::size_t> pending_{0};
  std::jthread thread_;
};

}  // namespace tally::collective
