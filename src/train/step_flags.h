#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::train {

// What a rank tells its neighbours about a step, in memory that they see: what its gradients weigh,
// and which buckets they are complete in. Only the rank itself writes; steps are numbered from 1.
class StepFlags {
 public:
  static std::size_t bytes_for(std::size_t buckets) {
    return sizeof(Head) + buckets * sizeof(std::atomic<std::uint64_t>);
  }
  // `memory` is zero at first, bytes_for(buckets) long and aligned to a cache line.
  explicit StepFlags(std::span<std::byte> memory)
      : head_(reinterpret_cast<Head*>(memory.data())),
        complete_(reinterpret_cast<std::atomic<std::uint64_t>*>(memory.data() + sizeof(Head))) {}

  // Before complete() of the same step.
  void weigh(double weight, double samples) const {
    head_->weight.store(std::bit_cast<std::uint64_t>(weight), std::memory_order_relaxed);
    head_->samples.store(std::bit_cast<std::uint64_t>(samples), std::memory_order_relaxed);
  }
  void complete(std::size_t bucket, std::uint64_t step) const {
    complete_[bucket].store(step, std::memory_order_release);
  }

  bool is_complete(std::size_t bucket, std::uint64_t step) const {
    return complete_[bucket].load(std::memory_order_acquire) == step;
  }
  // This rank uses nobody's memory any more.
  // Sequentially consistent: of two who leave at once, one sees the other.
  void leave() const { head_->left.store(1); }
  bool has_left() const { return head_->left.load() != 0; }

  // Of the step that a bucket was seen complete in.
  double weight() const {
    return std::bit_cast<double>(head_->weight.load(std::memory_order_relaxed));
  }
  double samples() const {
    return std::bit_cast<double>(head_->samples.load(std::memory_order_relaxed));
  }

 private:
  struct alignas(64) Head {
    std::atomic<std::uint64_t> weight;
    std::atomic<std::uint64_t> samples;
    std::atomic<std::uint32_t> left;
  };
  Head* head_;
  std::atomic<std::uint64_t>* complete_;
};

}  // namespace tally::train
