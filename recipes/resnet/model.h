#pragma once
#include <array>

#include "recipes/images.h"

namespace tally::recipes {

struct ResNetShape {
  std::array<int, 4> blocks = {2, 2, 2, 2};
  bool bottleneck = false;  // blocks of 1x1, 3x3, 1x1 instead of two 3x3
  ImageShape images;        // from 64 pixels on with ImageNet's stem
};
ResNetShape resnet18(const ImageShape& images);
ResNetShape resnet50(const ImageShape& images);

// Residual network (He, Zhang, Ren, Sun 2015), stride in the 3x3 convolution of a bottleneck; names
// as in torchvision. The stem for small images is one 3x3 convolution, for larger ones 7x7 with
// stride 2 and pooling.
class ResNet final : public Model {
 public:
  explicit ResNet(const ResNetShape& shape);
  at::Tensor forward(const at::Tensor& input) override;

 private:
  torch::nn::Sequential layer(const ResNetShape& shape, std::size_t stage);
  void initialise();

  const bool large_stem_;
  std::int64_t planes_ = 64;  // current channels during construction
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> layers_{nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace tally::recipes
