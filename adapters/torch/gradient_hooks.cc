#include "adapters/torch/gradient_hooks.h"

#include <memory>

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

namespace tally::adapter {

GradientHooks::GradientHooks(const std::vector<NamedTensor>& parameters,
                             std::function<void(std::size_t)> arrived)
    : arrived_(std::move(arrived)) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Accumulator accumulator = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    const std::uintptr_t key =
        accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, i](const torch::autograd::variable_list& outputs,
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

}  // namespace tally::adapter
