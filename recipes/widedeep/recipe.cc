#include "recipes/recommender/recipe.h"
#include "recipes/catalogue.h"
#include "recipes/widedeep/model.h"

namespace tally::recipes {

std::unique_ptr<Recipe> make_widedeep() {
  return make_recommender(
      {.name = "widedeep",
       .description = "a wide linear part with crossed fields beside deep layers, on Adult, "
                      "Criteo or MovieLens",
       .defaults = {.data = "",
                    .batch = 256,
                    .epochs = 4,
                    .optimizer = "adam",
                    .rate = 1e-3,
                    .schedule = "constant"},
       .make_model = [](const RecommenderShape& shape,
                        const data::Dataset& dataset) -> std::shared_ptr<Model> {
         return std::make_shared<WideDeep>(shape, crosses_for(fields_of(dataset)));
       }});
}

}  // namespace tally::recipes
