#pragma once
#include <torch/torch.h>

namespace tally::recipes {

// What a recipe trains: a module from a batch of inputs to a batch of outputs. Parameters have the
// names that such models have in Python, so that a checkpoint loads there. Threads: one at a time.
class Model : public torch::nn::Module {
 public:
  // `input` has the samples of a batch behind each other in its first dimension. Throws c10::Error
  // where the shape does not fit.
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

}  // namespace tally::recipes
