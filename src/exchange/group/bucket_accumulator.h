#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/memory/model_memory.h"

namespace tally::exchange {

// The gradients of one bucket on one host:
//
//   add (a parameter's gradient) ... -> zero_missing -> close -> is_complete -> sum -> clear
//
// Each rank adds its own gradients, which lie in its part of the ModelMemory. Sums are weighted,
// and made in the order of ranks. Threads: calls must not overlap; other ranks have objects of
// their own.
class BucketAccumulator final {
 public:
  // `local` is the number of this rank on its host. The memory must outlive this object.
  BucketAccumulator(const ModelMemory& memory, std::size_t bucket, int local, int locals);

  // This rank's gradient of a parameter is final. It lies in the bucket, or at `elsewhere`, where
  // it stays until clear(): possible if no other rank shares the memory. Returns whether it was
  // the last parameter of the bucket.
  bool add(std::size_t parameter, const std::byte* elsewhere);
  bool has(std::size_t parameter) const;
  bool is_full() const { return missing_ == 0; }
  // This rank adds nothing more in step `step`: sums may be made. zero_missing() first sets the
  // gradients to zero that were not added.
  void zero_missing();
  void close(std::uint64_t step) const;
  bool is_complete(std::uint64_t step) const;  // closed on all ranks of the host
  void clear();

  // Valid once is_complete().
  double samples() const;
  // A function that writes the weighted sum of a part of the bucket, divided by `divisor`. T is
  // double for float64 buckets, otherwise float.
  template <typename T>
  class Sum;
  template <typename T>
  Sum<T> sum(double divisor) const {
    return Sum<T>(*this, divisor);
  }

 private:
  struct Added {
    bool is_here = false;
    const std::byte* elsewhere = nullptr;
  };
  std::size_t index_of(std::size_t parameter) const;

  const ModelMemory& memory_;
  const std::size_t bucket_;
  const int local_;
  const int locals_;
  std::vector<Added> added_;  // by entry of the bucket
  std::size_t missing_;
  bool all_in_bucket_ = true;
};

template <typename T>
class BucketAccumulator::Sum final {
 public:
  Sum(const BucketAccumulator& of, double divisor);
  void operator()(Range part, T* out);

 private:
  const BucketAccumulator& of_;
  std::vector<T> weights_;           // by neighbour
  std::vector<const void*> inputs_;  // by neighbour
};

}  // namespace tally::exchange
