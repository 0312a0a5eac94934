#include "adapters/mpi/mpi_queue.h"

#include <algorithm>

#include "adapters/mpi/mpi_communicator.h"
#include "base/clock.h"
#include "collective/handle.h"

namespace tally::mpi {
namespace {

bool is_point(const Request& request) {
  return request.operation == Operation::kSend || request.operation == Operation::kReceive;
}

}  // namespace

MpiQueue::MpiQueue(MpiCommunicator& communicator)
    : communicator_(communicator), thread_([this](const std::stop_token& stop) { work(stop); }) {}

MpiQueue::~MpiQueue() {
  thread_.request_stop();
  arrived_.notify_all();
}

Handle MpiQueue::push(const Request& request) {
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
           .by = communicator_.deadline_of(request),
           .state = state,
           .operation = nullptr});
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

void MpiQueue::finish(Item& item, const Result<void>& outcome) {
  if (item.operation) communicator_.conclude(*item.operation, item.record, outcome);
  item.operation.reset();
  pending_.fetch_sub(1);
  item.state->complete(outcome);
}

bool MpiQueue::take_new(const std::stop_token& stop) {
  std::vector<std::unique_ptr<Item>> taken;
  {
    const MutexLock lock(mutex_);
    while (queue_.empty() && running_.empty() && !stop.stop_requested())
      arrived_.wait_for(mutex_, std::chrono::milliseconds(100));
    bool busy = std::any_of(running_.begin(), running_.end(),
                            [](const auto& item) { return !is_point(item->request); });
    for (auto item = queue_.begin(); item != queue_.end();) {
      if (!is_point((*item)->request) && busy) {
        ++item;
        continue;
      }
      busy = busy || !is_point((*item)->request);
      taken.push_back(std::move(*item));
      item = queue_.erase(item);
    }
  }
  for (auto& item : taken) {
    const auto admitted = communicator_.admit(item->request);
    if (!admitted.has_value()) {
      finish(*item, admitted.error());
      continue;
    }
    item->record = communicator_.record(item->request);
    item->operation = communicator_.prepare(item->request);
    running_.push_back(std::move(item));
  }
  return !taken.empty();
}

bool MpiQueue::advance() {
  bool ended = false;
  for (auto at = running_.begin(); at != running_.end();) {
    const Result<bool> complete = communicator_.look(*(*at)->operation, (*at)->by, (*at)->request);
    if (complete.has_value() && !*complete) {
      ++at;
      continue;
    }
    ended = true;
    const std::unique_ptr<Item> item = std::move(*at);
    at = running_.erase(at);
    finish(*item, complete.has_value() ? Result<void>() : complete.error());
  }
  return ended;
}

// A new operation ends the sleep.
void MpiQueue::rest(const Rest& rest) {
  if (rest.pause != Pause::kSleep) {
    take(rest);
    return;
  }
  communicator_.note_waiting();
  const MutexLock lock(mutex_);
  if (queue_.empty()) arrived_.wait_for(mutex_, rest.sleep);
}

void MpiQueue::work(const std::stop_token& stop) {
  const SteadyClock clock;
  TimePoint since = clock.now();
  int looks = 0;
  while (!stop.stop_requested()) {
    if (take_new(stop)) looks = 0;
    if (advance() || running_.empty()) {
      looks = 0;
      continue;
    }
    if (looks == 0) since = clock.now();
    std::size_t bytes = 0;
    for (const auto& item : running_)
      bytes = std::max(bytes, item->request.count * size_of(item->request.type));
    rest(rest_after(looks, communicator_.spins(), clock.now() - since,
                    patience_for(bytes, communicator_.spins())));
    ++looks;
  }
  const Error closed{.code = ErrorCode::kClosed, .message = "the communicator was closed"};
  while (!running_.empty()) {
    const std::unique_ptr<Item> item = std::move(running_.front());
    running_.pop_front();
    finish(*item, closed);
  }
  std::deque<std::unique_ptr<Item>> queued;
  {
    const MutexLock lock(mutex_);
    queued.swap(queue_);
  }
  for (const auto& item : queued) finish(*item, closed);
}

}  // namespace tally::mpi
