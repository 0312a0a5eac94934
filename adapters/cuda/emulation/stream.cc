#include "adapters/cuda/emulation/stream.h"

#include <algorithm>
#include <utility>

#include "adapters/cuda/emulation/failed_gpu.h"
#include "adapters/cuda/emulation/thread_pool.h"

namespace tally::cuda::emulation {

std::shared_ptr<Stream> Stream::start() {
  std::shared_ptr<Stream> stream(new Stream);
  thread_pool().run([stream] { stream->run(); });
  return stream;
}

std::uint64_t Stream::enqueue(std::function<void()> work) {
  const MutexLock lock(mutex_);
  waiting_.push_back(std::move(work));
  if (is_idle_) enqueued_more_.notify_one();
  return ++enqueued_;
}

std::uint64_t Stream::enqueued() {
  const MutexLock lock(mutex_);
  return enqueued_;
}

bool Stream::has_done(std::uint64_t number) {
  const MutexLock lock(mutex_);
  return done_ >= number;
}

void Stream::wait_for(std::uint64_t number) {
  const MutexLock lock(mutex_);
  ++waiters_;
  while (done_ < number) done_more_.wait(mutex_);
  --waiters_;
}

void Stream::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  enqueued_more_.notify_one();
}

void Stream::run() TALLY_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.lock();
  for (;;) {
    is_idle_ = true;
    while (waiting_.empty() && !closed_) enqueued_more_.wait(mutex_);
    is_idle_ = false;
    if (waiting_.empty()) break;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    mutex_.unlock();
    work();
    mutex_.lock();
    ++done_;
    if (waiters_ > 0) done_more_.notify_all();
  }
  mutex_.unlock();
}

Streams::Streams() { entries_.push_back({.handle = nullptr, .stream = Stream::start()}); }

Streams::~Streams() {
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) entry.stream->close();
}

cudaStream_t Streams::create(bool is_blocking) {
  const MutexLock lock(mutex_);
  const auto handle = reinterpret_cast<cudaStream_t>(next_handle_++);
  entries_.push_back({.handle = handle, .stream = Stream::start(), .is_blocking = is_blocking});
  return handle;
}

Streams::Entry* Streams::find(cudaStream_t handle) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [handle](const Entry& entry) { return entry.handle == handle; });
  return found == entries_.end() ? nullptr : &*found;
}

bool Streams::destroy(cudaStream_t handle) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(handle);
  if (handle == nullptr || entry == nullptr) return false;
  entry->stream->close();
  destroyed_.push_back({.stream = entry->stream, .number = entry->stream->enqueued()});
  entries_.erase(entries_.begin() + (entry - entries_.data()));
  return true;
}

Point Streams::enqueue(cudaStream_t handle, std::function<void()> work) {
  if (gpu_has_failed()) return {};
  const MutexLock lock(mutex_);
  Entry* const entry = find(handle);
  if (entry == nullptr) return {};
  std::vector<Point> before;
  if (entry->is_blocking)
    for (const Entry& other : entries_) {
      // Only the default stream waits for others than the default stream.
      if (&other == entry || !other.is_blocking || (handle != nullptr && other.handle != nullptr))
        continue;
      Point point{.stream = other.stream, .number = other.stream->enqueued()};
      if (!point.is_done()) before.push_back(std::move(point));
    }
  if (!before.empty())
    work = [before = std::move(before), work = std::move(work)] {
      for (const Point& point : before) point.wait();
      work();
    };
  return {.stream = entry->stream, .number = entry->stream->enqueue(std::move(work))};
}

Point Streams::last(cudaStream_t handle) {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(handle);
  if (entry == nullptr) return {};
  return {.stream = entry->stream, .number = entry->stream->enqueued()};
}

std::vector<Point> Streams::all_last() {
  const MutexLock lock(mutex_);
  std::erase_if(destroyed_, [](const Point& point) { return point.is_done(); });
  std::vector<Point> points = destroyed_;
  for (const Entry& entry : entries_) {
    Point point{.stream = entry.stream, .number = entry.stream->enqueued()};
    if (!point.is_done()) points.push_back(std::move(point));
  }
  return points;
}

Streams& streams() {
  // The threads must exist as long as the streams.
  (void)thread_pool();
  static Streams all;
  return all;
}

}  // namespace tally::cuda::emulation
