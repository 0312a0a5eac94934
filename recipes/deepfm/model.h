#pragma once
#include "recipes/keyed.h"
#include "recipes/model.h"

namespace tally::recipes {

struct DeepFmShape {
  std::int64_t slots = 39;
  std::int64_t rows = 1 << 16;
  std::int64_t embedding = 16;
  std::int64_t hidden = 400;
  std::int64_t layers = 3;
  double dropout = 0.3;
  double l2 = 0;  // of the rows of both tables
};

// DeepFM (Guo et al. 2017): a factorisation machine and fully connected layers on the same embeddings. `linear` has a
// weight per key, `embedding` a vector; `deep` are the layers.
class DeepFm final : public Model {
 public:
  explicit DeepFm(const DeepFmShape& shape);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  const double l2_;
  SparseEmbedding linear_;
  SparseEmbedding embedding_;
  DeepPart deep_;
  at::Tensor bias_;
};

// The sum of the products of all pairs: [samples, slots, dimension] to [samples].
at::Tensor pair_products(const at::Tensor& vectors);

}  // namespace tally::recipes
