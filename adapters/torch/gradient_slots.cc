#include "adapters/torch/gradient_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/CPUAllocator.h>

namespace tally::adapter {
namespace {

// To copy a smaller gradient costs nothing that could be measured.
constexpr std::size_t kLeastBytes = 16 << 10;

thread_local GradientSlots* lending = nullptr;

// The slots that tensors have, by address. A tensor knows only the address of its memory: libtorch
// also frees memory without a tensor, by Allocator::raw_deallocate().
class Loans final {
 public:
  struct Loan {
    std::shared_ptr<GradientSlots> slots;
    std::size_t bytes = 0;
  };
  void add(void* memory, Loan loan) {
    const MutexLock lock(mutex_);
    all_.emplace(memory, std::move(loan));
  }
  // Ends the loan of a slot; empty if `memory` is none.
  Loan end(void* memory) {
    const MutexLock lock(mutex_);
    const auto found = all_.find(memory);
    if (found == all_.end()) return {};
    Loan loan = std::move(found->second);
    all_.erase(found);
    return loan;
  }

 private:
  Mutex mutex_;
  std::map<void*, Loan> all_ TALLY_GUARDED_BY(mutex_);
};

// libtorch's allocator for the CPU, with slots during a LendingScope. There is one in the process,
// and libtorch keeps it until the process ends. A later caller of SetCPUAllocator() may replace it;
// gradients are then copied into slots.
class LendingAllocator final : public at::Allocator {
 public:
  static LendingAllocator& installed() {
    static LendingAllocator* const allocator = [] {
      auto* const made = new LendingAllocator(*c10::GetCPUAllocator());
      c10::SetCPUAllocator(made);
      return made;
    }();
    return *allocator;
  }

  at::DataPtr lend(std::span<std::byte> slot, std::shared_ptr<GradientSlots> slots) {
    loans_.add(slot.data(), {.slots = std::move(slots), .bytes = slot.size()});
    return {slot.data(), slot.data(), &release, at::Device(at::kCPU)};
  }

  // libtorch 1.13 has the first of these two, 2.11 the second, and copy_data().
  at::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  at::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  void copy_data(void* into, const void* from, std::size_t bytes) const {
    std::memcpy(into, from, bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }

 private:
  explicit LendingAllocator(at::Allocator& rest) : rest_(rest) {}

  at::DataPtr take(std::size_t bytes) const {
    if (lending != nullptr && bytes >= kLeastBytes)
      if (at::DataPtr slot = lending->lend(bytes)) return slot;
    return rest_.allocate(bytes);
  }
  static void release(void* memory) {
    LendingAllocator& self = installed();
    const Loans::Loan loan = self.loans_.end(memory);
    if (!loan.slots) return self.rest_.raw_deleter()(memory);
    loan.slots->give_back({static_cast<std::byte*>(memory), loan.bytes});
  }

  at::Allocator& rest_;
  Loans loans_;
};

}  // namespace

void GradientSlots::add(std::span<std::byte> slot) {
  all_.push_back(slot);
  const MutexLock lock(mutex_);
  free_[slot.size()].insert(slot.data());
}

at::DataPtr GradientSlots::lend(std::size_t bytes) {
  std::byte* memory = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto found = free_.find(bytes);
    if (found == free_.end() || found->second.empty()) return {};
    memory = *found->second.begin();
    found->second.erase(found->second.begin());
  }
  return LendingAllocator::installed().lend({memory, bytes}, shared_from_this());
}

void GradientSlots::give_back(std::span<std::byte> slot) {
  const MutexLock lock(mutex_);
  free_[slot.size()].insert(slot.data());
}

bool GradientSlots::hold(const at::Tensor& tensor) const {
  const auto* const begin = static_cast<const std::byte*>(tensor.data_ptr());
  return std::any_of(all_.begin(), all_.end(), [&](std::span<const std::byte> slot) {
    return begin >= slot.data() && begin + tensor.nbytes() <= slot.data() + slot.size();
  });
}

LendingScope::LendingScope(std::shared_ptr<GradientSlots> slots) : slots_(std::move(slots)) {
  if (slots_) LendingAllocator::installed();
  lending = slots_.get();
}

LendingScope::~LendingScope() { lending = nullptr; }

}  // namespace tally::adapter
