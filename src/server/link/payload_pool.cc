#include "server/link/payload_pool.h"

#include <utility>

namespace tally::server {
namespace {

// Smaller ones are the allocator's business.
constexpr std::size_t kLeastBytes = std::size_t{32} << 10;
constexpr std::size_t kMostKeptBytes = std::size_t{32} << 20;

}  // namespace

std::vector<std::byte> PayloadPool::take(std::size_t bytes) {
  std::vector<std::byte> memory;
  if (bytes >= kLeastBytes) {
    const MutexLock lock(mutex_);
    // The newest first: it is the likeliest to be in a cache.
    for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) {
      if (at->capacity() < bytes) continue;
      memory = std::move(*at);
      kept_bytes_ -= memory.capacity();
      kept_.erase(std::next(at).base());
      break;
    }
  }
  memory.resize(bytes);
  return memory;
}

void PayloadPool::give(std::vector<std::byte> memory) {
  if (memory.capacity() < kLeastBytes) return;
  const MutexLock lock(mutex_);
  if (kept_bytes_ + memory.capacity() > kMostKeptBytes) return;
  kept_bytes_ += memory.capacity();
  kept_.push_back(std::move(memory));
}

}  // namespace tally::server
