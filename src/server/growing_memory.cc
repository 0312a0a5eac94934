#include "server/growing_memory.h"

#include <sys/mman.h>

#include <utility>

#include "base/check.h"

namespace tally::server {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

void GrowingMemory::swap(GrowingMemory& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

bool GrowingMemory::grow(std::size_t bytes) {
  const std::size_t unit = bytes >= 4 * kHugePage ? kHugePage : kPage;
  const std::size_t wanted = (bytes + unit - 1) / unit * unit;
  if (wanted <= bytes_) return true;
  if (!budget_->take(wanted - bytes_)) return false;
  void* const place = data_ == nullptr ? ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                       : ::mremap(data_, bytes_, wanted, MREMAP_MAYMOVE);
  if (place == MAP_FAILED) {
    budget_->give_back(wanted - bytes_);
    return false;
  }
  // Rows are looked up at random: fewer, larger pages miss less. Where the kernel does not want to, it works as well.
  if (wanted >= kHugePage) static_cast<void>(::madvise(place, wanted, MADV_HUGEPAGE));
  data_ = static_cast<std::byte*>(place);
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
