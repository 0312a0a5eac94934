#pragma once
#include "recipes/model.h"
#include "recipes/recommender/tower.h"

namespace tally::recipes {

// DeepFM (Guo et al. 2017): a factorisation machine and fully connected layers on the same
// embeddings. `linear` has a weight per key; the rest is in Tower.
class DeepFm final : public Model {
 public:
  explicit DeepFm(const RecommenderShape& shape);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  const double l2_;
  SparseEmbedding linear_;
  Tower tower_;
};

// Returns the sum of the products of all pairs: [samples, slots, dimension] to [samples].
at::Tensor pair_products(const at::Tensor& vectors);

}  // namespace tally::recipes
