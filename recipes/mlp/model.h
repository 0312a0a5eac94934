#pragma once
#include <vector>

#include "recipes/model.h"

namespace tally::recipes {

struct MlpShape {
  std::int64_t inputs = 784;
  std::int64_t width = 512;
  std::int64_t hidden_layers = 2;
  std::int64_t outputs = 10;
  double dropout = 0;
};

// Fully connected layers fc1, fc2, ..., with ReLU and dropout between them.
class Mlp final : public Model {
 public:
  explicit Mlp(const MlpShape& shape);
  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::vector<torch::nn::Linear> layers_;
  torch::nn::Dropout dropout_;
};

}  // namespace tally::recipes
