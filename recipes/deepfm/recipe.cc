#include "recipes/deepfm/model.h"

#include "recipes/catalogue.h"

namespace tally::recipes {

// The pairwise term of a factorization machine in linear time (Rendle 2010): in each dimension
// (sum v)^2 = sum v^2 + 2 * the sum over pairs.
at::Tensor pair_products(const at::Tensor& vectors) {
  return (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) / 2;
}

DeepFm::DeepFm(const KeyedShape& shape) : tower_(*this, "linear", shape, /*initial_scale=*/0.02) {}

at::Tensor DeepFm::forward_batch(const KeyedBatch& batch) {
  const at::Tensor first = tower_.linear(batch);
  const at::Tensor vectors = tower_.vectors(batch);
  return first + pair_products(vectors) + tower_.deep(vectors) + tower_.bias();
}

std::unique_ptr<Recipe> make_deepfm() {
  return make_keyed_recipe(
      {.facts = {.name = "deepfm",
                 .description = "a factorisation machine with deep layers, on a table with two "
                                "classes: your own, Criteo, MovieLens or Adult",
                 .defaults = {.data = "movielens",
                              .batch = 256,
                              .epochs = 2,
                              .least_steps = 100,
                              .optimizer = "adam",
                              .rate = 1e-3}},
       .options = recommender_options,
       .make_model = [](const KeyedShape& shape, const std::vector<std::string>& /*fields*/)
           -> std::shared_ptr<Model> { return std::make_shared<DeepFm>(shape); }});
}

}  // namespace tally::recipes
