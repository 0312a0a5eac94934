#include "recipes/widedeep/model.h"

namespace tally::recipes {
namespace {

constexpr double kInitialScale = 0.05;

}  // namespace

WideDeep::WideDeep(const WideDeepShape& shape)
    : l2_(shape.l2),
      crosses_(shape.crosses),
      wide_(register_module("wide", make_embedding(1, shape.rows, 0))),
      embedding_(
          register_module("embedding", make_embedding(shape.embedding, shape.rows, kInitialScale))),
      deep_(register_module("deep", DeepPart(DeepShape{.inputs = shape.slots * shape.embedding,
                                                       .width = shape.hidden,
                                                       .layers = shape.layers,
                                                       .dropout = shape.dropout}))),
      bias_(register_parameter("bias", at::zeros({1}))) {}

at::Tensor WideDeep::forward(const at::Tensor& input) {
  const KeyedBatch batch = keyed_batch(input);
  // Each cross that is there counts once; rows of padding are zero.
  const at::Tensor crossed = crossed_keys(batch.keys, crosses_);
  const at::Tensor keys = at::cat({batch.keys, crossed}, 1);
  const at::Tensor values = at::cat({batch.values, at::ones_like(crossed, at::kDouble)}, 1);
  const at::Tensor wide = valued(shrinking(wide_->forward(keys), l2_), values).sum({1, 2});
  const at::Tensor vectors = valued(shrinking(embedding_->forward(batch.keys), l2_), batch.values);
  return wide + deep_->forward(vectors.flatten(1)) + bias_;
}

}  // namespace tally::recipes
