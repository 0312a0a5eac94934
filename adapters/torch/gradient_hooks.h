#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/variable.h>

#include "adapters/torch/tensors.h"

namespace tally::adapter {

// Calls `arrived(i)` whenever backward has accumulated a gradient into parameter i, in the thread
// that did so. An exception from it ends backward(). The destructor removes the hooks.
class GradientHooks final {
 public:
  GradientHooks(const std::vector<NamedTensor>& parameters,
                std::function<void(std::size_t)> arrived);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  // A shared or an intrusive pointer, depending on libtorch's version. Autograd itself holds only
  // weak references to accumulators.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  const std::function<void(std::size_t)> arrived_;
  std::vector<std::pair<Accumulator, std::uintptr_t>> hooks_;
};

// Whether the parameter has a hook of GradientHooks: a trainer trains it.
bool is_hooked(const at::Tensor& parameter);

}  // namespace tally::adapter
