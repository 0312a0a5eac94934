#pragma once
#include <torch/torch.h>

namespace tally::recipes {

// The module that a recipe trains, from a batch of inputs to a batch of outputs. Parameters have
// the usual names of such models in Python, so that checkpoints load there. Threads: one at a time.
class Model : public torch::nn::Module {
 public:
  // The first dimension of `input` is the batch. Throws c10::Error if the shape does not fit.
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

}  // namespace tally::recipes
