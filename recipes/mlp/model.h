#pragma once
#include "recipes/model.h"

namespace tally::recipes {

struct MlpShape {
  std::int64_t inputs = 784;
  std::int64_t width = 512;
  std::int64_t hidden_layers = 2;
  std::int64_t outputs = 10;
};

// Fully connected layers with ReLU between them: fc1, fc2, ...
class Mlp final : public Model {
 public:
  explicit Mlp(const MlpShape& shape);
  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace tally::recipes
