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

// The memory of an exchange's gradients, cut into slots that are lent to tensors. libtorch has no
// way to say where backward puts the gradient of a parameter, but it allocates each gradient when
// it computes it. During a LendingScope such an allocation gets a free slot of its size, so that
// most gradients already lie where the exchange reads them. A slot may also go to another tensor of
// that size; the gradient then goes to another slot or is copied to one.
// Threads: tensors may return their slots from any thread; other calls must not overlap.
class GradientSlots final : public std::enable_shared_from_this<GradientSlots> {
 public:
  // `owner` keeps the memory alive, for tensors may outlive the exchange.
  explicit GradientSlots(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}

  void add(std::span<std::byte> slot);
  // A free slot of that many bytes, which returns here with its last tensor. Null if none is free.
  at::DataPtr lend(std::size_t bytes);
  // Whether the tensor lies in slots.
  bool hold(const at::Tensor& tensor) const;
  // A slot that was lent is free again. From any thread.
  void give_back(std::span<std::byte> slot);
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  const std::shared_ptr<const void> owner_;
  std::vector<std::span<std::byte>> all_;
  Mutex mutex_;
  std::map<std::size_t, std::set<std::byte*>> free_ TALLY_GUARDED_BY(mutex_);  // by bytes
};

// While the object lives, tensors that libtorch allocates in this thread get slots. Null `slots`:
// no effect. Scopes of a thread must not overlap.
class LendingScope final {
 public:
  explicit LendingScope(std::shared_ptr<GradientSlots> slots);
  ~LendingScope();
  LendingScope(const LendingScope&) = delete;
  LendingScope& operator=(const LendingScope&) = delete;

 private:
  const std::shared_ptr<GradientSlots> slots_;
};

}  // namespace tally::adapter
