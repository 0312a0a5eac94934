#include "recipes/widedeep/model.h"

#include <utility>

#include "recipes/catalogue.h"
#include "recipes/recommender/recipe.h"

namespace tally::recipes {

namespace {

constexpr double kWideDeepScale = 0.05;

}  // namespace

WideDeep::WideDeep(const RecommenderShape& shape, std::vector<Cross> crosses)
    : l2_(shape.l2),
      crosses_(std::move(crosses)),
      wide_(register_module("wide", make_embedding(1, shape.rows, 0))),
      tower_(*this, shape, kWideDeepScale) {}

at::Tensor WideDeep::forward(const at::Tensor& input) {
  const KeyedBatch batch = keyed_batch(input);
  // Each present cross counts once; padding rows are zero.
  const at::Tensor crossed = crossed_keys(batch.keys, crosses_);
  const KeyedBatch widened{
      .keys = at::cat({batch.keys, crossed}, 1),
      .values = at::cat({batch.values, at::ones_like(crossed, at::kDouble)}, 1)};
  return linear_part(wide_, widened, l2_) + tower_.deep(tower_.vectors(batch)) + tower_.bias();
}

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
