#pragma once
#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "adapters/mpi/mpi_operation.h"
#include "adapters/mpi/polling.h"
#include "base/mutex.h"
#include "tally/communicator.h"

namespace tally::mpi {

class MpiCommunicator;

// Carries out started operations in a thread of its own, which looks at them by turns: MPI calls
// nobody back. Collectives go one after the other in the order of issue; sends and receives go
// beside them.
class MpiQueue {
 public:
  static constexpr std::size_t kCapacity = 4096;

  explicit MpiQueue(MpiCommunicator& communicator);
  // Ends the thread; what was queued or under way ends with kClosed.
  ~MpiQueue();
  MpiQueue(const MpiQueue&) = delete;
  MpiQueue& operator=(const MpiQueue&) = delete;

  Handle push(const Request& request);
  // Nothing is queued or under way.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  struct Item {
    Request request;
    std::vector<std::size_t> counts;  // what the request's spans refer to
    std::vector<std::size_t> receive_counts;
    Deadline by;
    std::shared_ptr<Handle::State> state;  // shared with the caller's Handles
    std::unique_ptr<MpiOperation> operation;
    std::uint64_t record = 0;
  };

  void work(const std::stop_token& stop);
  // Moves what may begin from the queue to `running_`; waits for something if nothing is running.
  // Whether there was something.
  bool take_new(const std::stop_token& stop);
  void rest(const Rest& rest);
  // Whether something ended.
  bool advance();
  void finish(Item& item, const Result<void>& outcome);

  MpiCommunicator& communicator_;
  Mutex mutex_;
  ConditionVariable arrived_;
  std::deque<std::unique_ptr<Item>> queue_ TALLY_GUARDED_BY(mutex_);
  std::list<std::unique_ptr<Item>> running_;  // the thread's own
  std::atomic<std::size_t> pending_{0};
  std::jthread thread_;
};

}  // namespace tally::mpi
