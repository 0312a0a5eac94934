#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::exchange {

// The progress of a rank in a step, in memory that its neighbours read: the weight of its
// gradients, the place of each gradient, and the buckets that are complete. Only the rank itself
// writes. Steps are numbered from 1.
class StepFlags {
 public:
  struct Counts {
    std::size_t buckets = 0;
    std::size_t parameters = 0;
  };
  // The place of a gradient that does not exist.
  static constexpr std::int64_t kNoGradient = INT64_MIN;

  static std::size_t bytes_for(const Counts& counts) {
    return sizeof(Head) + counts.buckets * sizeof(std::atomic<std::uint64_t>) +
           counts.parameters * sizeof(std::atomic<std::int64_t>);
  }
  // `memory` is initially zero, has bytes_for(counts) bytes and is aligned to a cache line.
  StepFlags(std::span<std::byte> memory, const Counts& counts)
      : head_(reinterpret_cast<Head*>(memory.data())),
        complete_(reinterpret_cast<std::atomic<std::uint64_t>*>(memory.data() + sizeof(Head))),
        places_(reinterpret_cast<std::atomic<std::int64_t>*>(complete_ + counts.buckets)) {}

  // Call before complete() of the same step.
  void weigh(double weight, double samples) const {
    head_->weight.store(std::bit_cast<std::uint64_t>(weight), std::memory_order_relaxed);
    head_->samples.store(std::bit_cast<std::uint64_t>(samples), std::memory_order_relaxed);
  }
  // The gradient of a parameter begins `place` bytes, which may be negative, from the start of the
  // rank's buckets. Call before complete() of its bucket.
  void set_place(std::size_t parameter, std::int64_t place) const {
    places_[parameter].store(place, std::memory_order_relaxed);
  }
  void complete(std::size_t bucket, std::uint64_t step) const {
    complete_[bucket].store(step, std::memory_order_release);
  }

  bool is_complete(std::size_t bucket, std::uint64_t step) const {
    return complete_[bucket].load(std::memory_order_acquire) == step;
  }
  // This rank no longer uses the memory of other ranks. Sequentially consistent: if two ranks leave
  // at the same time, at least one sees the other's flag.
  void leave() const { head_->left.store(1); }
  bool has_left() const { return head_->left.load() != 0; }

  // Valid for the step in which a bucket was seen complete.
  double weight() const {
    return std::bit_cast<double>(head_->weight.load(std::memory_order_relaxed));
  }
  double samples() const {
    return std::bit_cast<double>(head_->samples.load(std::memory_order_relaxed));
  }
  // Valid if the parameter's bucket was seen complete, and samples() > 0.
  std::int64_t place(std::size_t parameter) const {
    return places_[parameter].load(std::memory_order_relaxed);
  }

 private:
  struct alignas(64) Head {
    std::atomic<std::uint64_t> weight;
    std::atomic<std::uint64_t> samples;
    std::atomic<std::uint32_t> left;
  };
  Head* head_;
  std::atomic<std::uint64_t>* complete_;  // by bucket
  std::atomic<std::int64_t>* places_;     // by parameter
};

}  // namespace tally::exchange
