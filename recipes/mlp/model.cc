#include "recipes/mlp/model.h"

namespace tally::recipes {

Mlp::Mlp(const MlpShape& shape) {
  std::int64_t inputs = shape.inputs;
  for (std::int64_t i = 0; i <= shape.hidden_layers; ++i) {
    const std::int64_t outputs = i == shape.hidden_layers ? shape.outputs : shape.width;
    layers_.push_back(
        register_module("fc" + std::to_string(i + 1), torch::nn::Linear(inputs, outputs)));
    inputs = outputs;
  }
}

at::Tensor Mlp::forward(const at::Tensor& input) {
  at::Tensor x = input.reshape({input.size(0), -1});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i]->forward(x);
    if (i + 1 < layers_.size()) x = torch::relu(x);
  }
  return x;
}

}  // namespace tally::recipes
