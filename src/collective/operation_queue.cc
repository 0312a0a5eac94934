#include "collective/operation_queue.h"

#include <algorithm>

#include "base/errors.h"
#include "collective/handle.h"
#include "collective/request.h"
#include "collective/started_operations.h"

namespace tally::collective {

OperationQueue::OperationQueue(Runner& runner, StartedOperations* started)
    : runner_(runner), started_(started) {
  if (started_ != nullptr) {
    started_->add(*this);
  } else {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
}

OperationQueue::~OperationQueue() {
  if (started_ != nullptr) {
    started_->remove(*this);
    end_all();
    return;
  }
  thread_.request_stop();
  arrived_.notify_all();
  runner_.wake();
}

Handle OperationQueue::push(const Request& request) {
  if (pending_.load() >= kCapacity)
    return ended_handle(make_error(ErrorCode::kExhausted, "too many operations in flight"));
  auto state = std::make_shared<Handle::State>(started_);
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
  if (started_ == nullptr) {
    arrived_.notify_all();
    runner_.wake();
  }
  return Handle(state);
}

bool OperationQueue::is_busy() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Item& item) { return !is_point(item.request); });
}

// A collective that waits behind a running one is not new.
bool OperationQueue::can_begin() const {
  const bool busy = is_busy();
  return std::any_of(queue_.begin(), queue_.end(),
                     [busy](const Item& item) { return !busy || is_point(item.request); });
}

bool OperationQueue::has_new() {
  const MutexLock lock(mutex_);
  return can_begin();
}

void OperationQueue::wait_for_new(Duration at_most) {
  const MutexLock lock(mutex_);
  if (!can_begin()) arrived_.wait_for(mutex_, at_most);
}

void OperationQueue::finish(Item& item, const Result<void>& outcome) {
  if (item.operation) item.operation->conclude(outcome);
  item.operation.reset();
  pending_.fetch_sub(1);
  item.state->complete(outcome);
}

bool OperationQueue::take_new(const std::stop_token& stop) {
  std::list<Item> taken;
  {
    const MutexLock lock(mutex_);
    while (started_ == nullptr && queue_.empty() && running_.empty() && !stop.stop_requested())
      arrived_.wait_for(mutex_, std::chrono::milliseconds(100));
    bool busy = is_busy();
    for (auto next = queue_.begin(); next != queue_.end();) {
      const auto item = next++;
      if (!is_point(item->request) && busy) continue;
      busy = busy || !is_point(item->request);
      taken.splice(taken.end(), queue_, item);
    }
  }
  const bool any = !taken.empty();
  while (!taken.empty()) {
    running_.splice(running_.end(), taken, taken.begin());
    Item& item = running_.back();
    auto operation = runner_.prepare(item.request, item.by);
    if (operation.has_value()) {
      item.operation = *std::move(operation);
    } else {
      finish(item, operation.error());
      running_.pop_back();
    }
  }
  return any;
}

// Whether an operation moved.
bool OperationQueue::advance_running() {
  bool moved = false;
  for (auto item = running_.begin(); item != running_.end();) {
    const auto progress = item->operation->advance();
    const bool over = !progress.has_value() || *progress == Progress::kComplete;
    moved = moved || over || *progress == Progress::kMoved;
    if (!over) {
      ++item;
      continue;
    }
    finish(*item, progress.has_value() ? Result<void>() : progress.error());
    item = running_.erase(item);
  }
  return moved;
}

void OperationQueue::work(const std::stop_token& stop) {
  int looks = 0;
  while (!stop.stop_requested()) {
    if (take_new(stop)) looks = 0;
    if (advance_running()) {
      looks = 0;
    } else if (!running_.empty()) {
      runner_.rest(*this, running_, looks++);
    }
  }
  end_all();
}

bool OperationQueue::advance() {
  if (advancing_) return false;
  advancing_ = true;
  const bool began = take_new({});
  const bool moved = advance_running();
  advancing_ = false;
  return began || moved;
}

void OperationQueue::end_all() {
  const Error closed{.code = ErrorCode::kClosed, .message = "the communicator was closed"};
  {
    const MutexLock lock(mutex_);
    running_.splice(running_.end(), queue_);
  }
  for (Item& item : running_) finish(item, closed);
}

}  // namespace tally::collective
