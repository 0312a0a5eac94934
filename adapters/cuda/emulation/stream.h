#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace tally::cuda::emulation {

// Work on a thread of its own, one piece after the other.
class Stream final {
 public:
  // Returns the number of this piece of work, which counts from 1.
  std::uint64_t enqueue(std::function<void()> work);
  std::uint64_t enqueued();
  bool has_done(std::uint64_t number);
  void wait_for(std::uint64_t number);
  // No work is enqueued any more. The thread ends when it has done the rest.
  void close();

  static std::shared_ptr<Stream> start();

 private:
  Stream() = default;
  void run();

  Mutex mutex_;
  ConditionVariable enqueued_more_, done_more_;
  bool is_idle_ TALLY_GUARDED_BY(mutex_) = false;
  int waiters_ TALLY_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> waiting_ TALLY_GUARDED_BY(mutex_);
  std::uint64_t enqueued_ TALLY_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ TALLY_GUARDED_BY(mutex_) = 0;
  bool closed_ TALLY_GUARDED_BY(mutex_) = false;
};

// All work that a stream had when this was taken. Without a stream there is none.
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;

  bool is_done() const { return stream == nullptr || stream->has_done(number); }
  void wait() const {
    if (stream != nullptr) stream->wait_for(number);
  }
};

// All streams of the GPU. The legacy default stream, whose handle is null, waits for what the
// streams without cudaStreamNonBlocking have, and these wait for what it has.
class Streams final {
 public:
  Streams();
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t create(bool is_blocking);
  // The next functions return false, or a point without a stream, for an unknown handle.
  // Work that a stream still has is done later.
  bool destroy(cudaStream_t handle);
  // Returns the end of `work`.
  Point enqueue(cudaStream_t handle, std::function<void()> work);
  // The end of the work that was enqueued last.
  Point last(cudaStream_t handle);
  // The ends of all streams that have work, also of those that were destroyed.
  std::vector<Point> all_last();

 private:
  struct Entry {
    cudaStream_t handle = nullptr;
    std::shared_ptr<Stream> stream;
    bool is_blocking = true;
  };
  Entry* find(cudaStream_t handle) TALLY_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Entry> entries_ TALLY_GUARDED_BY(mutex_);          // with the default stream
  std::vector<Point> destroyed_ TALLY_GUARDED_BY(mutex_);        // that may still have work
  std::uintptr_t next_handle_ TALLY_GUARDED_BY(mutex_) = 0x100;  // no handle is used again
};

Streams& streams();

}  // namespace tally::cuda::emulation
