#include "recipes/linear/model.h"

namespace tally::recipes {

LinearModel::LinearModel(std::int64_t features, std::int64_t outputs)
    : linear_(register_module("linear", torch::nn::Linear(features, outputs))) {
  const torch::NoGradGuard no_gradients;
  for (at::Tensor& parameter : parameters()) parameter.zero_();
}

at::Tensor LinearModel::forward(const at::Tensor& input) {
  return linear_->forward(input.reshape({input.size(0), -1}));
}

std::vector<double> LinearModel::weights() const {
  const at::Tensor row = linear_->weight.detach()[0].to(at::kCPU, at::kDouble).contiguous();
  std::vector<double> result(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
  result.push_back(linear_->bias.detach()[0].item<double>());
  return result;
}

}  // namespace tally::recipes
