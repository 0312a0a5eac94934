#include "recipes/recommender/recipe.h"
#include "recipes/catalogue.h"
#include "recipes/deepfm/model.h"

namespace tally::recipes {

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
