#pragma once
#include <memory>

#include <torch/torch.h>

#include "bench/train/model_facts.h"

namespace tally::bench::train {

// A model with its loss: the mean over the batch, for gpt over all symbols.
class BenchModel : public torch::nn::Module {
 public:
  virtual torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) = 0;
};

// Makes a model with the same operations, parameter names and order as in python_worker.py.
//   mlp  linear layers with ReLU between
//   cnn  3x3 convolutions without bias, each with batch norm and ReLU; 2x2 max-pooling between
//        stages, then the mean over the image and a linear layer
//   gpt  decoder: symbol and position embedding; blocks of norm, causal attention, norm and a GELU
//        layer four times as wide, with residual connections; norm; the symbol embedding again as
//        the last layer. No dropout. Attention is scaled_dot_product_attention of libtorch 2, and
//        written out with libtorch 1.
//   resnet  that of recipes/resnet, for small pictures
// The parameters and buffers are on the CPU; other tensors, such as masks, are on `device`.
std::shared_ptr<BenchModel> make_model(const ModelFacts& facts, const at::Device& device);

}  // namespace tally::bench::train
