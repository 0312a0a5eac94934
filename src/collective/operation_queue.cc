#include "collective/operation_queue.h"

#include <algorithm>

#include "collective/handle.h"
#include "collective/request.h"

namespace tally::collective {
OperationQueue::OperationQueue(GroupCommunicator& communicator)
    : communicator_(communicator), thread_([this](const std::stop_token& stop) { work(stop); }) {}

OperationQueue::~OperationQueue() {
  thread_.request_stop();
  arrived_.notify_all();
  communicator_.wake();
}

Handle OperationQueue::push(const Request& request) {
  auto state = std::make_shared<Handle::State>();
  if (pending_.load() >= kCapacity) {
    state->complete(
        Error{.code = ErrorCode::kExhausted, .message = "too many operations in flight"});
    return Handle(state);
  }
  Item item{.request = request,
            .counts = {request.counts.begin(), request.counts.end()},
            .receive_counts = {request.receive_counts.begin(), request.receive_counts.end()},
            .by = communicator_.deadline_of(request),
            .state = state,
            .active = nullptr};
  pending_.fetch_add(1);
  {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(item));
    Item& kept = queue_.back();
    kept.request.counts = kept.counts;
    kept.request.receive_counts = kept.receive_counts;
  }
  arrived_.notify_all();
  communicator_.wake();
  return Handle(state);
}

void OperationQueue::finish(Item& item, const Result<void>& outcome) {
  if (item.active) communicator_.conclude(*item.active, outcome);
  item.active.reset();
  pending_.fetch_sub(1);
  item.state->complete(outcome);
}

void OperationQueue::take_new(std::list<Item>& running, const std::stop_token& stop) {
  std::list<Item> taken;
  {
    MutexLock lock(mutex_);
    while (queue_.empty() && running.empty() && !stop.stop_requested())
      arrived_.wait_for(mutex_, std::chrono::milliseconds(100));
    bool busy = std::any_of(running.begin(), running.end(),
                            [](const Item& item) { return !is_point(item.request); });
    for (auto item = queue_.begin(); item != queue_.end();) {
      if (!is_point(item->request) && busy) {
        ++item;
        continue;
      }
      busy = busy || !is_point(item->request);
      taken.push_back(std::move(*item));
      item = queue_.erase(item);
    }
  }
  while (!taken.empty()) {
    running.splice(running.end(), taken, taken.begin());
    Item& item = running.back();
    item.request.counts = item.counts;
    item.request.receive_counts = item.receive_counts;
    auto active = communicator_.prepare(item.request, item.by);
    if (active.has_value()) {
      item.active = *std::move(active);
    } else {
      finish(item, active.error());
      running.pop_back();
    }
  }
}

bool OperationQueue::advance(std::list<Item>& running) {
  bool moved = false;
  for (auto item = running.begin(); item != running.end();) {
    const auto progress = item->active->task->advance();
    if (progress.has_value() && *progress == Progress::kBlocked) {
      ++item;
      continue;
    }
    moved = true;
    if (progress.has_value() && *progress == Progress::kMoved) {
      item->active->running.stalled = false;
      ++item;
      continue;
    }
    finish(*item, progress.has_value() ? Result<void>() : progress.error());
    item = running.erase(item);
  }
  return moved;
}

void OperationQueue::sleep(std::list<Item>& running) {
  Mailbox& mailbox = communicator_.mailbox();
  MutexLock lock(mailbox.router().mutex);
  Deadline by = Deadline::never();
  for (Item& item : running) {
    communicator_.engine().diagnose(item.active->running);
    if (mailbox.failed()) return;
    by = earlier(by, communicator_.engine().next_look(item.active->running));
  }
  mailbox.router().wait(by, [this, &running] {
    MutexLock queue_lock(mutex_);
    return !queue_.empty() || std::any_of(running.begin(), running.end(), [](const Item& item) {
      return item.active->task->ready();
    });
  });
}

void OperationQueue::work(const std::stop_token& stop) {
  std::list<Item> running;
  int spins = 0;
  while (!stop.stop_requested()) {
    take_new(running, stop);
    if (advance(running)) {
      spins = 0;
    } else if (!running.empty() && spins++ >= communicator_.context().spins) {
      sleep(running);
    }
  }
  const Error closed{.code = ErrorCode::kClosed, .message = "the communicator was closed"};
  for (Item& item : running) finish(item, closed);
  std::deque<Item> queued;
  {
    MutexLock lock(mutex_);
    queued.swap(queue_);
  }
  for (Item& item : queued) finish(item, closed);
}

}  // namespace tally::collective
