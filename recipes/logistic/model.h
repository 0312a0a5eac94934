#pragma once
#include "recipes/keyed.h"

namespace tally::recipes {

// Logistic regression on samples of keys: a weight per key, `linear`, and `bias`. Both are
// initially zero. Uses `rows` and `l2` of the shape.
class Logistic final : public Model {
 public:
  explicit Logistic(const KeyedShape& shape);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  const double l2_;
  SparseEmbedding linear_;
  at::Tensor bias_;
};

}  // namespace tally::recipes
