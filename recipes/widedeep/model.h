#pragma once
#include <vector>

#include "recipes/model.h"
#include "recipes/recommender/tower.h"
#include "recipes/widedeep/crosses.h"

namespace tally::recipes {

// Wide & Deep (Cheng et al. 2016): `wide` has a weight per key and per crossed key; the rest is in
// Tower.
class WideDeep final : public Model {
 public:
  WideDeep(const RecommenderShape& shape, std::vector<Cross> crosses);
  // Logits [samples].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  const double l2_;
  const std::vector<Cross> crosses_;
  SparseEmbedding wide_;
  Tower tower_;
};

}  // namespace tally::recipes
