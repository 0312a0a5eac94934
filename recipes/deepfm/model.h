#pragma once
#include "recipes/keyed.h"

namespace tally::recipes {

// DeepFM (Guo et al. 2017): a factorisation machine and fully connected layers on the same
// embeddings. `linear` has a weight per key; the rest is in Tower.
class DeepFm final : public KeyedModel {
 public:
  explicit DeepFm(const KeyedShape& shape);
  at::Tensor forward_batch(const KeyedBatch& batch) override;

 private:
  Tower tower_;
};

// Returns the sum of the products of all pairs: [samples, slots, dimension] to [samples].
at::Tensor pair_products(const at::Tensor& vectors);

}  // namespace tally::recipes
