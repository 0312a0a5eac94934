#pragma once
#include "recipes/keyed.h"
#include "recipes/model.h"
#include "recipes/widedeep/crosses.h"

namespace tally::recipes {

struct WideDeepShape {
  std::int64_t slots = 19;
  std::vector<Cross> crosses = {};
  std::int64_t rows = 1 << 16;
  std::int64_t embedding = 16;
  std::int64_t hidden = 400;
  std::int64_t layers = 3;
  double dropout = 0.3;
  double l2 = 0;  // of the rows of both tables
};

// Wide & Deep (Cheng et al. 2016): `wide` has a weight per key and per crossed key, `embedding` a vector per key, which the
// layers of `deep` see.
class WideDeep final : public Model {
 public:
  explicit WideDeep(const WideDeepShape& shape);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  const double l2_;
  const std::vector<Cross> crosses_;
  SparseEmbedding wide_;
  SparseEmbedding embedding_;
  DeepPart deep_;
  at::Tensor bias_;
};

}  // namespace tally::recipes
