#pragma once
#include <cstddef>

#include "server/storage/storage.h"

namespace tally::server {

// Zeroed pages that grow without being copied: the kernel moves them. Charged to the budget, which
// outlives this. Threads: calls must not overlap.
class GrowingMemory final {
 public:
  explicit GrowingMemory(MemoryBudget& budget) : budget_(&budget) {}
  ~GrowingMemory() { release(); }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;
  // Empty, with the same budget.
  GrowingMemory sibling() const { return GrowingMemory(*budget_); }
  void swap(GrowingMemory& other) noexcept;

  // At least so many bytes, the new ones zero; addresses change. False, with nothing changed, where
  // the budget's limit or the machine's memory does not allow it.
  bool grow(std::size_t bytes);
  void release();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  MemoryBudget* budget_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tally::server
