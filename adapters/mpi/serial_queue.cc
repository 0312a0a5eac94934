#include "adapters/mpi/serial_queue.h"

#include "collective/handle.h"

namespace tally::mpi {

SerialQueue::SerialQueue(std::function<Result<void>(const Request&)> run)
    : run_(std::move(run)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

SerialQueue::~SerialQueue() {
  thread_.request_stop();
  arrived_.notify_all();
}

Handle SerialQueue::push(const Request& request) {
  auto state = std::make_shared<Handle::State>();
  if (pending_.load() >= kCapacity) {
    state->complete(
        Error{.code = ErrorCode::kExhausted, .message = "too many operations in flight"});
    return Handle(state);
  }
  auto item = std::make_unique<Item>(
      Item{.request = request,
           .counts = {request.counts.begin(), request.counts.end()},
           .receive_counts = {request.receive_counts.begin(), request.receive_counts.end()},
           .state = state});
  item->request.counts = item->counts;
  item->request.receive_counts = item->receive_counts;
  pending_.fetch_add(1);
  {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(item));
  }
  arrived_.notify_all();
  return Handle(state);
}

std::unique_ptr<SerialQueue::Item> SerialQueue::next(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  while (queue_.empty() && !stop.stop_requested())
    arrived_.wait_for(mutex_, std::chrono::milliseconds(100));
  if (queue_.empty()) return nullptr;
  std::unique_ptr<Item> item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

void SerialQueue::work(const std::stop_token& stop) {
  while (const std::unique_ptr<Item> item = next(stop)) {
    const Result<void> outcome =
        stop.stop_requested()
            ? Error{.code = ErrorCode::kClosed, .message = "the communicator was closed"}
            : run_(item->request);
    pending_.fetch_sub(1);
    item->state->complete(outcome);
  }
}

}  // namespace tally::mpi
