#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tally/communicator.h"

namespace tally::mpi {

// Carries out started operations one after the other in a thread of its own, by a function that
// waits.
class SerialQueue {
 public:
  static constexpr std::size_t kCapacity = 4096;

  explicit SerialQueue(std::function<Result<void>(const Request&)> run);
  // Waits for the operation under way; what is queued behind it ends with kClosed.
  ~SerialQueue();
  SerialQueue(const SerialQueue&) = delete;
  SerialQueue& operator=(const SerialQueue&) = delete;

  // The request has its deadline.
  Handle push(const Request& request);
  // Nothing is queued or under way.
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  struct Item {
    Request request;
    std::vector<std::size_t> counts;  // what the request's spans refer to
    std::vector<std::size_t> receive_counts;
    std::shared_ptr<Handle::State> state;  // shared with the caller's Handles
  };
  void work(const std::stop_token& stop);
  std::unique_ptr<Item> next(const std::stop_token& stop);

  const std::function<Result<void>(const Request&)> run_;
  Mutex mutex_;
  ConditionVariable arrived_;
  std::deque<std::unique_ptr<Item>> queue_ TALLY_GUARDED_BY(mutex_);
  std::atomic<std::size_t> pending_{0};
  std::jthread thread_;
};

}  // namespace tally::mpi
