#include "adapters/cuda/emulation/memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tally::cuda::emulation {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr int kNewByte = 0xFF;

}  // namespace

void Memory::Release::operator()(std::byte* data) const { ::operator delete(data, kAlignment); }

void* Memory::allocate(cudaMemoryType type, std::size_t bytes) {
  const MutexLock lock(mutex_);
  drop_unused();
  if (type == cudaMemoryTypeDevice) {
    if (bytes > kDeviceBytes - used_) return nullptr;
    used_ += bytes;
  }
  auto* const data = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  std::memset(data, kNewByte, bytes);
  blocks_.emplace(
      reinterpret_cast<std::uintptr_t>(data),
      Block{.allocation = {.data = data, .bytes = bytes, .type = type, .number = ++allocations_},
            .memory = std::unique_ptr<std::byte, Release>(data)});
  return data;
}

bool Memory::release(cudaMemoryType type, void* data) {
  std::vector<Point> users = streams().all_last();
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == blocks_.end() || found->second.allocation.type != type) return false;
  released_.push_back({.block = std::move(found->second), .users = std::move(users)});
  blocks_.erase(found);
  drop_unused();
  return true;
}

void Memory::drop_unused() {
  std::erase_if(released_, [this](Released& old) TALLY_NO_THREAD_SAFETY_ANALYSIS {
    std::erase_if(old.users, [](const Point& user) { return user.is_done(); });
    if (!old.users.empty()) return false;
    if (old.block.allocation.type == cudaMemoryTypeDevice) used_ -= old.block.allocation.bytes;
    return true;
  });
}

std::size_t Memory::free_bytes() {
  const MutexLock lock(mutex_);
  drop_unused();
  return kDeviceBytes - used_;
}

std::optional<Memory::Allocation> Memory::find(const void* address) {
  const MutexLock lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return std::nullopt;
  const Allocation& before = std::prev(next)->second.allocation;
  if (at - reinterpret_cast<std::uintptr_t>(before.data) >= before.bytes) return std::nullopt;
  return before;
}

bool Memory::has(cudaMemoryType type, const void* address, std::size_t bytes) {
  const std::optional<Allocation> found = find(address);
  if (!found) return type == cudaMemoryTypeHost && address != nullptr;
  const auto skipped =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - found->data);
  return found->type == type && bytes <= found->bytes - skipped;
}

Memory& memory() {
  static Memory all;
  return all;
}

}  // namespace tally::cuda::emulation
