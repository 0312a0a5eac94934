#pragma once
#include "recipes/keyed.h"

namespace tally::recipes {

// DeepFM (Guo et al. 2017): a factorisation machine and fully connected layers on the same
// embeddings. `linear` has a weight per key; the rest is in Tower.
class DeepFm final : public Model {
 public:
  explicit DeepFm(const KeyedShape& shape);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  Tower tower_;
};

// Returns the sum of the products of all pairs: [samples, slots, dimension] to [samples].
at::Tensor pair_products(const at::Tensor& vectors);

}  // namespace tally::recipes
