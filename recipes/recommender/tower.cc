#include "recipes/recommender/tower.h"

namespace tally::recipes {

Tower::Tower(torch::nn::Module& model, const RecommenderShape& shape, double initial_scale)
    : l2_(shape.l2),
      embedding_(model.register_module("embedding",
                                       make_embedding(shape.embedding, shape.rows, initial_scale))),
      deep_(
          model.register_module("deep", DeepPart(DeepShape{.inputs = shape.slots * shape.embedding,
                                                           .width = shape.hidden,
                                                           .layers = shape.layers,
                                                           .dropout = shape.dropout}))),
      bias_(model.register_parameter("bias", at::zeros({1}))) {}

at::Tensor Tower::vectors(const KeyedBatch& batch) {
  return valued(shrinking(embedding_->forward(batch.keys), l2_), batch.values);
}

}  // namespace tally::recipes
