#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/memory/model_memory.h"

namespace tally::exchange {

// The gradients of one bucket on one host:
//
//   add (a parameter's gradient) ... -> publish_missing -> close -> is_complete -> sum -> clear
//
// Each rank adds its own gradients. Sums are weighted, and made in the order of ranks. Threads:
// calls must not overlap; other ranks have objects of their own.
class BucketAccumulator final {
 public:
  // `local` is the number of this rank on its host. The memory must outlive this object.
  BucketAccumulator(const ModelMemory& memory, std::size_t bucket, int local, int locals);

  // This rank's gradient of a parameter is final. It lies in the bucket, or at `elsewhere`, where
  // it stays until clear(): in any memory if no other rank shares the ModelMemory, otherwise where
  // ModelMemory::has_gradients(). Returns whether it was the last parameter of the bucket.
  bool add(std::size_t parameter, const std::byte* elsewhere);
  bool has(std::size_t parameter) const;
  bool is_full() const { return missing_ == 0; }
  // Tells the other ranks which gradients were not added; these count as zero. Call before close().
  void publish_missing();
  // This rank adds nothing more in step `step`: sums may be made.
  void close(std::uint64_t step) const;
  bool is_complete(std::uint64_t step) const;  // closed on all ranks of the host
  void clear();

  // Valid once is_complete().
  double samples() const;
  // A function that writes the weighted sum of a part of the bucket, divided by `divisor`. It does
  // not write to the gaps between parameters. T is double for float64 buckets, otherwise float.
  template <typename T>
  class Sum;
  template <typename T>
  Sum<T> sum(double divisor) const {
    return Sum<T>(*this, divisor);
  }

 private:
  std::size_t index_of(std::size_t parameter) const;

  const ModelMemory& memory_;
  const std::size_t bucket_;
  const int local_;
  const int locals_;
  std::vector<bool> added_;  // by entry of the bucket
  std::size_t missing_;
};

template <typename T>
class BucketAccumulator::Sum final {
 public:
  Sum(const BucketAccumulator& of, double divisor);
  void operator()(Range part, T* out);

 private:
  void sum_entry(const BucketLayout::Entry& entry, Range part, T* out);

  const BucketAccumulator& of_;
  const BucketLayout& layout_;
  std::vector<T> weights_;  // by neighbour; 0: its gradients are not read
  // Of one entry.
  std::vector<T> entry_weights_;
  std::vector<const void*> inputs_;
};

}  // namespace tally::exchange
