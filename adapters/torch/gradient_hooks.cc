#include "adapters/torch/gradient_hooks.h"

#include <algorithm>
#include <memory>

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

namespace tally::adapter {
namespace {

// A type of its own, by which is_hooked() finds the hook.
class GradientHook final : public torch::autograd::utils::LambdaPostHook {
 public:
  using LambdaPostHook::LambdaPostHook;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<NamedTensor>& parameters,
                             std::function<void(std::size_t)> arrived)
    : arrived_(std::move(arrived)) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Accumulator accumulator = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    const std::uintptr_t key = accumulator->add_post_hook(
        std::make_unique<GradientHook>([this, i](const torch::autograd::variable_list& outputs,
                                                 const torch::autograd::variable_list&) {
          arrived_(i);
          return outputs;
        }));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

GradientHooks::~GradientHooks() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

bool is_hooked(const at::Tensor& parameter) {
  if (!parameter.defined() || !parameter.requires_grad() || !parameter.is_leaf()) return false;
  const auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  const auto& hooks = accumulator->post_hooks();
  return std::any_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<const GradientHook*>(hook.get()) != nullptr;
  });
}

}  // namespace tally::adapter
