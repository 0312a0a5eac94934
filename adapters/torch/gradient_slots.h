#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include <ATen/Tensor.h>

#include "base/mutex.h"

namespace tally::adapter {

// The memory of an exchange's gradients, cut into slots for tensors. libtorch has no way to say
// where backward puts the gradient of a parameter, but it allocates each gradient when it computes
// it. During a SlotScope such an allocation gets a free slot of its size, so that most gradients
// already lie where the exchange reads them. A slot may also go to another tensor of that size; the
// gradient then goes to another slot or is copied to one.
// Threads: tensors may be freed in any thread; other calls must not overlap.
class GradientSlots final : public std::enable_shared_from_this<GradientSlots> {
 public:
  // Wraps libtorch's allocator for the CPU, for the rest of the process. libtorch does not expect
  // that other threads allocate meanwhile, so call it early. Later calls do nothing.
  static void install_allocator();

  // `owner` keeps the memory alive, because tensors may outlive the exchange.
  explicit GradientSlots(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}

  // An empty slot is ignored.
  void add(std::span<std::byte> slot);
  // A free slot of that many bytes, which is free again after its last tensor. Null if all are
  // used.
  at::DataPtr allocate(std::size_t bytes);
  // The slot is free again. Any thread.
  void release(std::span<std::byte> slot);
  // Whether the tensor lies in slots.
  bool contains(const at::Tensor& tensor) const;
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  const std::shared_ptr<const void> owner_;
  std::vector<std::span<std::byte>> all_;
  Mutex mutex_;
  std::map<std::size_t, std::set<std::byte*>> free_ TALLY_GUARDED_BY(mutex_);  // by bytes
};

// While the object lives, tensors that libtorch allocates in this thread get slots. With null
// `slots` the scope has no effect. Scopes of a thread must not overlap.
class SlotScope final {
 public:
  explicit SlotScope(std::shared_ptr<GradientSlots> slots);
  ~SlotScope();
  SlotScope(const SlotScope&) = delete;
  SlotScope& operator=(const SlotScope&) = delete;

 private:
  const std::shared_ptr<GradientSlots> slots_;
};

}  // namespace tally::adapter
