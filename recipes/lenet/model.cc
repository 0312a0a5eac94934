#include "recipes/lenet/model.h"

namespace tally::recipes {

LeNet::LeNet(const LeNetShape& shape) {
  const std::int64_t padding = (32 - shape.size) / 2;
  conv1_ = register_module(
      "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.channels, 6, 5).padding(padding)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
  fc1_ = register_module("fc1", torch::nn::Linear(16 * 5 * 5, 120));
  fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
  fc3_ = register_module("fc3", torch::nn::Linear(84, shape.classes));
}

at::Tensor LeNet::forward(const at::Tensor& input) {
  // Pooling first is equivalent, because ReLU is monotonic, and leaves ReLU a quarter of the
  // values.
  at::Tensor x = torch::relu(torch::max_pool2d(conv1_->forward(input), 2));
  x = torch::relu(torch::max_pool2d(conv2_->forward(x), 2));
  x = torch::relu(fc1_->forward(x.flatten(1)));
  x = torch::relu(fc2_->forward(x));
  return fc3_->forward(x);
}

}  // namespace tally::recipes
