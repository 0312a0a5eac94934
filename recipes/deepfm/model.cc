#include "recipes/deepfm/model.h"

namespace tally::recipes {
namespace {

constexpr double kDeepFmScale = 0.02;

}  // namespace

// (sum v)^2 = sum v^2 + 2 * the sum over pairs.
at::Tensor pair_products(const at::Tensor& vectors) {
  return (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) / 2;
}

DeepFm::DeepFm(const RecommenderShape& shape)
    : l2_(shape.l2),
      linear_(register_module("linear", make_embedding(1, shape.rows, 0))),
      tower_(*this, shape, kDeepFmScale) {}

at::Tensor DeepFm::forward(const at::Tensor& input) {
  const KeyedBatch batch = keyed_batch(input);
  const at::Tensor first = linear_part(linear_, batch, l2_);
  const at::Tensor vectors = tower_.vectors(batch);
  return first + pair_products(vectors) + tower_.deep(vectors) + tower_.bias();
}

}  // namespace tally::recipes
