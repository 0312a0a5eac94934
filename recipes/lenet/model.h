#pragma once
#include "recipes/images.h"

namespace tally::recipes {

// LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998) in its present form: ReLU, max-pooling, all maps of
// the second convolution connected. 61,706 parameters for grey images and ten classes. The first
// convolution pads images below 32x32 pixels.
class LeNet final : public Model {
 public:
  explicit LeNet(const ImageShape& shape);
  at::Tensor forward(const at::Tensor& input) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};

}  // namespace tally::recipes
