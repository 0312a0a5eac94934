#include "train/loader.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "data/permutation.h"

namespace tally::train {
namespace {

// Memory of one batch. It grows, and does not shrink.
class Buffer final {
 public:
  void reserve(std::size_t bytes, const decltype(LoaderOptions::allocate)& allocate) {
    memory_ = allocate(bytes);
    capacity_ = bytes;
  }
  void resize(std::size_t bytes) {
    if (bytes > capacity_) {
      memory_ =
          std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
      capacity_ = bytes;
    }
    size_ = bytes;
  }
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

// One batch: the samples to read, and the memory for them.
struct Slot {
  std::vector<std::uint64_t> indices;
  std::uint64_t epoch = 0;
  bool last_of_epoch = false;
  data::Position after;
  Buffer input;
  Buffer target;
  bool ready = false;
  std::optional<Error> failure;
};

}  // namespace

// Batches are numbered from 0; batch n uses slot n % slots_.size(). Of all numbers
//   [0, given_) have been returned; the caller still uses the last one,
//   [given_, claimed_) are ready or being read, each by one thread,
//   claimed_ is next, once its slot is free: claimed_ < given_ + prefetch.
class Loader::Worker final {
 public:
  Worker(const data::Dataset& dataset, data::Order order, const LoaderOptions& options)
      : dataset_(dataset),
        options_(options),
        order_(order),
        slots_(static_cast<std::size_t>(options.prefetch) + 1) {
    TALLY_CHECK(options.threads >= 0 && options.prefetch > 0);
    TALLY_CHECK(order_.options().size == dataset.size());
    position_ = order_.position();
    if (options.allocate) {
      const std::uint64_t samples = std::max<std::uint64_t>(1, order_.largest_batch());
      for (Slot& slot : slots_) {
        slot.input.reserve(samples * data::input_bytes(dataset.shape()), options.allocate);
        slot.target.reserve(samples * data::target_bytes(dataset.shape()), options.allocate);
      }
    }
    for (int i = 0; i < options.threads; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { read_ahead(stop); });
  }

  ~Worker() {
    // Request all stops before the first join, so that threads end in parallel.
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Result<Batch> next() {
    if (threads_.empty()) {
      Slot& slot = slots_[0];
      if (slot.failure) return *slot.failure;
      const TimePoint begin = clock_.now();
      claim(slot);
      read(slot, {});
      waited_ += clock_.now() - begin;
      return give(slot);
    }
    const MutexLock lock(mutex_);
    Slot& slot = slots_[given_ % slots_.size()];
    if (!slot.ready) {
      const TimePoint begin = clock_.now();
      while (!slot.ready) became_ready_.wait(mutex_);
      waited_ += clock_.now() - begin;
    }
    if (slot.failure) return *slot.failure;
    ++given_;
    became_free_.notify_one();
    return give(slot);
  }

  data::Position position() const { return position_; }
  Duration waited() const { return waited_; }

 private:
  Result<Batch> give(Slot& slot) {
    slot.ready = false;
    if (slot.failure) return *slot.failure;
    position_ = slot.after;
    return Batch{.samples = slot.indices.size(),
                 .input = slot.input.bytes(),
                 .target = slot.target.bytes(),
                 .last_of_epoch = slot.last_of_epoch,
                 .after = slot.after};
  }

  void claim(Slot& slot) {
    slot.epoch = order_.position().epoch;
    slot.indices = order_.next();
    slot.last_of_epoch = order_.at_epoch_end();
    slot.after = order_.position();
  }

  // Called under the mutex, by the condition variable.
  bool failed_or_free() const TALLY_NO_THREAD_SAFETY_ANALYSIS {
    return failed_ || claimed_ < given_ + static_cast<std::uint64_t>(options_.prefetch);
  }

  // Claims and reads one batch after the other, until a stop request or a read error.
  void read_ahead(const std::stop_token& stop) TALLY_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.lock();
    for (;;) {
      const bool go_on = became_free_.wait(mutex_, stop, [this] { return failed_or_free(); });
      if (!go_on || failed_) break;
      Slot& slot = slots_[claimed_++ % slots_.size()];
      claim(slot);
      mutex_.unlock();
      read(slot, stop);
      mutex_.lock();
      slot.ready = true;
      // Batches after a failed one are never returned.
      if (slot.failure) failed_ = true;
      if (failed_) became_free_.notify_all();
      became_ready_.notify_one();
    }
    mutex_.unlock();
  }

  void read(Slot& slot, const std::stop_token& stop) const {
    const std::size_t input_bytes = data::input_bytes(dataset_.shape());
    const std::size_t target_bytes = data::target_bytes(dataset_.shape());
    slot.input.resize(slot.indices.size() * input_bytes);
    slot.target.resize(slot.indices.size() * target_bytes);
    for (std::size_t i = 0; i < slot.indices.size() && !stop.stop_requested(); ++i) {
      Rng augment(data::mix(data::mix(options_.seed, slot.epoch), slot.indices[i]));
      auto outcome = dataset_.read(slot.indices[i], augment,
                                   slot.input.bytes().subspan(i * input_bytes, input_bytes),
                                   slot.target.bytes().subspan(i * target_bytes, target_bytes));
      if (outcome.has_value()) continue;
      slot.failure = std::move(outcome).error();
      return;
    }
  }

  const data::Dataset& dataset_;
  const LoaderOptions options_;
  const SteadyClock clock_;

  Mutex mutex_;
  ConditionVariable became_ready_;
  ConditionVariable became_free_;
  // The mutex guards the order and the bookkeeping of slots. The memory of a slot belongs to its
  // reader thread, then to the caller.
  data::Order order_;
  std::vector<Slot> slots_;
  std::uint64_t claimed_ TALLY_GUARDED_BY(mutex_) = 0;
  std::uint64_t given_ TALLY_GUARDED_BY(mutex_) = 0;
  bool failed_ TALLY_GUARDED_BY(mutex_) = false;

  // Used by the caller's thread only.
  data::Position position_;
  Duration waited_{};

  // Declared last, so that threads are joined first.
  std::vector<std::jthread> threads_;
};

Loader::Loader(const data::Dataset& dataset, data::Order order, const LoaderOptions& options)
    : worker_(std::make_unique<Worker>(dataset, order, options)) {}

Loader::~Loader() = default;

Result<Batch> Loader::next() { return worker_->next(); }

data::Position Loader::position() const { return worker_->position(); }

Duration Loader::waited() const { return worker_->waited(); }

}  // namespace tally::train
