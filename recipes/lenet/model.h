#pragma once
#include "recipes/model.h"

namespace tally::recipes {

struct LeNetShape {
  std::int64_t channels = 1;
  std::int64_t size = 28;  // of the square images: 28, which the first convolution pads, or 32
  std::int64_t classes = 10;
};

// LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998) in its present form: ReLU, max-pooling, all maps of
// the second convolution connected. 61,706 parameters for grey images and ten classes.
class LeNet final : public Model {
 public:
  explicit LeNet(const LeNetShape& shape);
  at::Tensor forward(const at::Tensor& input) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};

}  // namespace tally::recipes
