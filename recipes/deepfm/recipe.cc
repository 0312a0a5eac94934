#include "recipes/deepfm/model.h"

#include "recipes/catalogue.h"
#include "recipes/recommender/recipe.h"

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

std::unique_ptr<Recipe> make_deepfm() {
  return make_recommender(
      {.name = "deepfm",
       .description = "a factorisation machine with deep layers on Criteo, MovieLens or Adult",
       .defaults = {.data = "movielens",
                    .batch = 256,
                    .epochs = 2,
                    .optimizer = "adam",
                    .rate = 1e-3,
                    .schedule = "constant"},
       .make_model = [](const RecommenderShape& shape, const data::Dataset& /*dataset*/)
           -> std::shared_ptr<Model> { return std::make_shared<DeepFm>(shape); }});
}

}  // namespace tally::recipes
