#include "server/client/staging.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/check.h"

namespace tally::server {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallest = 4096;

}  // namespace

Result<std::span<std::byte>> Staging::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  const MutexLock lock(mutex_);
  std::vector<std::span<std::byte>>& free = free_[size];
  if (free.empty()) return make(size);
  const std::span<std::byte> memory = free.back();
  free.pop_back();
  return memory;
}

void Staging::give_back(std::span<std::byte> memory) {
  TALLY_CHECK(std::has_single_bit(memory.size()));
  const MutexLock lock(mutex_);
  free_[memory.size()].push_back(memory);
}

Result<std::span<std::byte>> Staging::make(std::size_t bytes) {
  if (allocate_) {
    TALLY_TRY(const std::span<std::byte> memory, allocate_(bytes + kAlignment));
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.subspan((kAlignment - address % kAlignment) % kAlignment, bytes);
  }
  heap_.push_back(std::make_unique<std::byte[]>(bytes + kAlignment));
  std::byte* begin = heap_.back().get();
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  return std::span(begin + (kAlignment - address % kAlignment) % kAlignment, bytes);
}

}  // namespace tally::server
