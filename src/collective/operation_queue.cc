#include "collective/operation_queue.h"

#include <algorithm>

#include "base/errors.h"
#include "collective/handle.h"
#include "collective/request.h"

namespace tally::collective {

OperationQueue::OperationQueue(Runner& runner)
    : runner_(runner), thread_([this](const std::stop_token& stop) { work(stop); }) {}

OperationQueue::~OperationQueue() {
  thread_.request_stop();
  arrived_.notify_all();
  runner_.wake();
}

Handle OperationQueue::push(const Request& request) {
  if (pending_.load() >= kCapacity)
    return ended_handle(make_error(ErrorCode::kExhausted, "too many operations in flight"));
  auto state = std::make_shared<Handle::State>();
  std::list<Item> pushed;
  Item& item = pushed.emplace_back(
      Item{.request = request,
           .counts = {request.counts.begin(), request.counts.end()},
           .receive_counts = {request.receive_counts.begin(), request.receive_counts.end()},
           .by = runner_.deadline_of(request),
           .state = state,
           .operation = nullptr});
  item.request.counts = item.counts;
  item.request.receive_counts = item.receive_counts;
  pending_.fetch_add(1);
  {
    const MutexLock lock(mutex_);
    queue_.splice(queue_.end(), pushed);
  }
  arrived_.notify_all();
  runner_.wake();
  return Handle(state);
}

bool OperationQueue::has_new() {
  const MutexLock lock(mutex_);
  return !queue_.empty();
}

void OperationQueue::wait_for_new(Duration at_most) {
  const MutexLock lock(mutex_);
  if (queue_.empty()) arrived_.wait_for(mutex_, at_most);
}

void OperationQueue::finish(Item& item, const Result<void>& outcome) {
  if (item.operation) item.operation->conclude(outcome);
  item.operation.reset();
  pending_.fetch_sub(1);
  item.state->complete(outcome);
}

bool OperationQueue::take_new(std::list<Item>& running, const std::stop_token& stop) {
  std::list<Item> taken;
  {
    const MutexLock lock(mutex_);
    while (queue_.empty() && running.empty() && !stop.stop_requested())
      arrived_.wait_for(mutex_, std::chrono::milliseconds(100));
    bool busy = std::any_of(running.begin(), running.end(),
                            [](const Item& item) { return !is_point(item.request); });
    for (auto next = queue_.begin(); next != queue_.end();) {
      const auto item = next++;
      if (!is_point(item->request) && busy) continue;
      busy = busy || !is_point(item->request);
      taken.splice(taken.end(), queue_, item);
    }
  }
  const bool any = !taken.empty();
  while (!taken.empty()) {
    running.splice(running.end(), taken, taken.begin());
    Item& item = running.back();
    auto operation = runner_.prepare(item.request, item.by);
    if (operation.has_value()) {
      item.operation = *std::move(operation);
    } else {
      finish(item, operation.error());
      running.pop_back();
    }
  }
  return any;
}

// Whether an operation moved.
bool OperationQueue::advance(std::list<Item>& running) {
  bool moved = false;
  for (auto item = running.begin(); item != running.end();) {
    const auto progress = item->operation->advance();
    const bool over = !progress.has_value() || *progress == Progress::kComplete;
    moved = moved || over || *progress == Progress::kMoved;
    if (!over) {
      ++item;
      continue;
    }
    finish(*item, progress.has_value() ? Result<void>() : progress.error());
    item = running.erase(item);
  }
  return moved;
}

void OperationQueue::work(const std::stop_token& stop) {
  std::list<Item> running;
  int looks = 0;
  while (!stop.stop_requested()) {
    if (take_new(running, stop)) looks = 0;
    if (advance(running)) {
      looks = 0;
    } else if (!running.empty()) {
      runner_.rest(*this, running, looks++);
    }
  }
  const Error closed{.code = ErrorCode::kClosed, .message = "the communicator was closed"};
  {
    const MutexLock lock(mutex_);
    running.splice(running.end(), queue_);
  }
  for (Item& item : running) finish(item, closed);
}

}  // namespace tally::collective
