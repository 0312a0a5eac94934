#include "server/storage/memory.h"

#include <sys/mman.h>

#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace tally::server {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Maps new memory at a multiple of `unit`: maps more and unmaps the ends. nullptr if that fails.
void* reserve(std::size_t bytes, std::size_t unit) {
  const std::size_t more = bytes + unit - kPage;
  void* const all =
      ::mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(all);
  const std::size_t before = (unit - reinterpret_cast<std::uintptr_t>(all) % unit) % unit;
  const std::size_t after = more - before - bytes;
  if (before != 0) ::munmap(begin, before);
  if (after != 0) ::munmap(begin + before + bytes, after);
  return begin + before;
}

}  // namespace

bool MemoryBudget::take(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (limit_ != 0 && (bytes > limit_ || used > limit_ - bytes)) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryBudget::give_back(std::uint64_t bytes) {
  const std::uint64_t before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  TALLY_CHECK(before >= bytes);
}

std::string usage_text(const MemoryBudget& budget) {
  if (budget.limit() == 0)
    return fmt::format("{} bytes are in use, and the system has no more", budget.used());
  return fmt::format("{} of {} bytes are in use", budget.used(), budget.limit());
}

void GrowingMemory::swap(GrowingMemory& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

bool GrowingMemory::grow(std::size_t bytes) {
  const bool large = bytes >= kHugePage;
  const std::size_t unit = large ? kHugePage : kPage;
  const std::size_t wanted = (bytes + unit - 1) / unit * unit;
  if (wanted <= bytes_) return true;
  if (!budget_->take(wanted - bytes_)) return false;
  void* const place = reserve(wanted, unit);
  void* const moved = place == nullptr ? MAP_FAILED
                      : data_ == nullptr
                          ? place
                          : ::mremap(data_, bytes_, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (moved == MAP_FAILED) {
    // mremap() may have unmapped `place`, and another thread may own those addresses: leave them.
    budget_->give_back(wanted - bytes_);
    return false;
  }
  // Rows are looked up at random: huge pages miss the TLB less. The advice may be ignored.
  if (large) static_cast<void>(::madvise(moved, wanted, MADV_HUGEPAGE));
  data_ = static_cast<std::byte*>(moved);
  bytes_ = wanted;
  return true;
}

void GrowingMemory::release() {
  if (data_ == nullptr) return;
  TALLY_CHECK(::munmap(data_, bytes_) == 0);
  budget_->give_back(bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace tally::server
