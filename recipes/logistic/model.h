#pragma once
#include "recipes/keyed.h"
#include "recipes/model.h"

namespace tally::recipes {

struct LogisticShape {
  std::int64_t rows = 1 << 18;
  double l2 = 0;
};

// Logistic regression on samples of keys: a weight per key, `linear`, and `bias`. Both are
// initially zero.
class Logistic final : public Model {
 public:
  explicit Logistic(const LogisticShape& shape);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  const double l2_;
  SparseEmbedding linear_;
  at::Tensor bias_;
};

}  // namespace tally::recipes
