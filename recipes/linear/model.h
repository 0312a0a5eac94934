#pragma once
#include "recipes/model.h"

namespace tally::recipes {

// y = weight·x + bias; one number per sample, or with `outputs` > 1 a score per class.
class LinearModel final : public Model {
 public:
  explicit LinearModel(std::int64_t features, std::int64_t outputs = 1);

  at::Tensor forward(const at::Tensor& input) override;
  // Returns the weights of the first output and its bias.
  std::vector<double> weights() const;

 private:
  torch::nn::Linear linear_{nullptr};
};

}  // namespace tally::recipes
