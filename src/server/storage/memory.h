#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tally::server {

// Counts the memory of all storages of a server against a limit. Threads: safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_; }

 private:
  const std::uint64_t limit_;  // 0: none
  std::atomic<std::uint64_t> used_{0};
};

// "1024 of 4096 bytes are in use", for errors; without a limit "1024 bytes are in use, and the
// system has no more".
std::string usage_text(const MemoryBudget& budget);

// Zeroed pages that grow without being copied: the kernel moves them. Charged to the budget, which
// outlives this. Threads: calls must not overlap.
class GrowingMemory final {
 public:
  explicit GrowingMemory(MemoryBudget& budget) : budget_(&budget) {}
  ~GrowingMemory() { release(); }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;
  void swap(GrowingMemory& other) noexcept;

  // Grows to at least `bytes`, the new ones zero; the address changes. False, with nothing changed,
  // where the budget or the machine has no more.
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
