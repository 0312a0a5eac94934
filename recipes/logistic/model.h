#pragma once
#include "recipes/keyed.h"

namespace tally::recipes {

// Logistic regression on samples of keys: a weight per key, `linear`, and `bias`. Both are
// initially zero. Uses `rows` and `l2` of the shape.
class Logistic final : public KeyedModel {
 public:
  explicit Logistic(const KeyedShape& shape);
  at::Tensor forward_batch(const KeyedBatch& batch) override;

 private:
  const double l2_;
  SparseEmbedding linear_;
  at::Tensor bias_;
};

}  // namespace tally::recipes
