#pragma once
#include <vector>

#include "recipes/model.h"

namespace tally::recipes {

struct GptShape {
  std::int64_t symbols = 65;
  std::int64_t context = 64;  // longest context of a prediction
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;  // a multiple of heads
  double dropout = 0;
  bool bias = true;  // in linear layers and norms
};

// A decoder after Radford et al. (2019), with their names: pre-norm blocks of causal attention and
// a GELU layer, learned positions, and one matrix for both the symbol embedding and the output.
// With libtorch 2 the attention is its fused one, which never stores the weights of all pairs.
class Gpt final : public Model {
 public:
  explicit Gpt(const GptShape& shape);

  // From symbols int64 [samples, length <= context] to scores [samples, length, symbols]; a score
  // depends on no later symbol.
  at::Tensor forward(const at::Tensor& symbols) override;
  const GptShape& shape() const { return shape_; }

 private:
  class Block;
  class Norm;

  const GptShape shape_;
  torch::nn::Embedding wte_{nullptr};
  torch::nn::Embedding wpe_{nullptr};
  torch::nn::Dropout drop_{nullptr};
  torch::nn::ModuleList h_{nullptr};
  std::shared_ptr<Norm> ln_f_;
};

}  // namespace tally::recipes
