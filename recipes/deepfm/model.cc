#include "recipes/deepfm/model.h"

namespace tally::recipes {
namespace {

constexpr double kInitialScale = 0.02;

}  // namespace

// (sum v)^2 = sum v^2 + 2 * the sum over pairs.
at::Tensor pair_products(const at::Tensor& vectors) {
  return (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) / 2;
}

DeepFm::DeepFm(const DeepFmShape& shape)
    : l2_(shape.l2),
      linear_(register_module("linear", make_embedding(1, shape.rows, 0))),
      embedding_(
          register_module("embedding", make_embedding(shape.embedding, shape.rows, kInitialScale))),
      deep_(register_module("deep", DeepPart(DeepShape{.inputs = shape.slots * shape.embedding,
                                                       .width = shape.hidden,
                                                       .layers = shape.layers,
                                                       .dropout = shape.dropout}))),
      bias_(register_parameter("bias", at::zeros({1}))) {}

at::Tensor DeepFm::forward(const at::Tensor& input) {
  const KeyedBatch batch = keyed_batch(input);
  const at::Tensor first =
      valued(shrinking(linear_->forward(batch.keys), l2_), batch.values).sum({1, 2});
  const at::Tensor vectors = valued(shrinking(embedding_->forward(batch.keys), l2_), batch.values);
  return first + pair_products(vectors) + deep_->forward(vectors.flatten(1)) + bias_;
}

}  // namespace tally::recipes
