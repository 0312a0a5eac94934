#include "adapters/torch/gradient_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/CPUAllocator.h>

#include "base/check.h"

namespace tally::adapter {
namespace {

// Copying a smaller gradient has no measurable cost.
constexpr std::size_t kLeastBytes = 16 << 10;

thread_local GradientSlots* slots_of_thread = nullptr;

// libtorch's allocator for the CPU, with slots during a SlotScope. There is one in the process, and
// libtorch keeps it until the process ends. A later caller of SetCPUAllocator() may replace it;
// gradients are then copied into slots.
class SlotAllocator final : public at::Allocator {
 public:
  static SlotAllocator& installed() {
    static SlotAllocator* const allocator = [] {
      auto* const made = new SlotAllocator(*c10::GetCPUAllocator());
      c10::SetCPUAllocator(made);
      return made;
    }();
    return *allocator;
  }

  at::DataPtr use(std::span<std::byte> slot, std::shared_ptr<GradientSlots> slots) {
    const MutexLock lock(mutex_);
    const bool is_new = used_.emplace(slot.data(), Used{std::move(slots), slot.size()}).second;
    TALLY_CHECK(is_new);
    return {slot.data(), slot.data(), &release, at::Device(at::kCPU)};
  }

  // libtorch 1.13 declares the first of these overloads; 2.11 declares the second, and copy_data().
  at::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  at::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  void copy_data(void* into, const void* from, std::size_t bytes) const {
    std::memcpy(into, from, bytes);
  }
  // raw_deallocate() calls it. Memory that is not a slot comes with the deleter of `rest_`, to
  // which this one passes it on.
  at::DeleterFnPtr raw_deleter() const override {
    return rest_.raw_deleter() != nullptr ? &release : nullptr;
  }

 private:
  struct Used {
    std::shared_ptr<GradientSlots> slots;
    std::size_t bytes = 0;
  };

  explicit SlotAllocator(at::Allocator& rest) : rest_(rest) {}

  at::DataPtr take(std::size_t bytes) const {
    if (slots_of_thread != nullptr && bytes >= kLeastBytes)
      if (at::DataPtr slot = slots_of_thread->allocate(bytes)) return slot;
    return rest_.allocate(bytes);
  }

  // libtorch also frees memory without a tensor, so that the address is all that is known of it.
  static void release(void* memory) {
    SlotAllocator& self = installed();
    const Used used = self.end_use(memory);
    if (!used.slots) return self.rest_.raw_deleter()(memory);
    used.slots->release({static_cast<std::byte*>(memory), used.bytes});
  }
  // Returns an empty value if no slot at this address is used.
  Used end_use(void* memory) {
    const MutexLock lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return {};
    Used used = std::move(found->second);
    used_.erase(found);
    return used;
  }

  at::Allocator& rest_;
  Mutex mutex_;
  std::map<void*, Used> used_ TALLY_GUARDED_BY(mutex_);  // by address
};

}  // namespace

void GradientSlots::install_allocator() { SlotAllocator::installed(); }

void GradientSlots::add(std::span<std::byte> slot) {
  if (slot.empty()) return;
  all_.push_back(slot);
  release(slot);
}

at::DataPtr GradientSlots::allocate(std::size_t bytes) {
  std::byte* memory = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto found = free_.find(bytes);
    if (found == free_.end() || found->second.empty()) return {};
    memory = *found->second.begin();
    found->second.erase(found->second.begin());
  }
  return SlotAllocator::installed().use({memory, bytes}, shared_from_this());
}

void GradientSlots::release(std::span<std::byte> slot) {
  const MutexLock lock(mutex_);
  free_[slot.size()].insert(slot.data());
}

bool GradientSlots::contains(const at::Tensor& tensor) const {
  const auto* const begin = static_cast<const std::byte*>(tensor.data_ptr());
  return std::any_of(all_.begin(), all_.end(), [&](std::span<const std::byte> slot) {
    return begin >= slot.data() && begin + tensor.nbytes() <= slot.data() + slot.size();
  });
}

SlotScope::SlotScope(std::shared_ptr<GradientSlots> slots) : slots_(std::move(slots)) {
  slots_of_thread = slots_.get();
}

SlotScope::~SlotScope() { slots_of_thread = nullptr; }

}  // namespace tally::adapter
