#include "recipes/widedeep/model.h"

#include <utility>

#include "recipes/catalogue.h"

namespace tally::recipes {

WideDeep::WideDeep(const KeyedShape& shape, std::vector<Cross> crosses)
    : crosses_(std::move(crosses)), tower_(*this, "wide", shape, /*initial_scale=*/0.05) {}

at::Tensor WideDeep::forward_batch(const KeyedBatch& batch) {
  // Each present cross counts once; padding rows are zero.
  const at::Tensor crossed = crossed_keys(batch.keys, crosses_);
  const KeyedBatch widened{
      .keys = at::cat({batch.keys, crossed}, 1),
      .values = at::cat({batch.values, at::ones_like(crossed, at::kDouble)}, 1)};
  return tower_.linear(widened) + tower_.deep(tower_.vectors(batch)) + tower_.bias();
}

std::unique_ptr<Recipe> make_widedeep() {
  return make_keyed_recipe(
      {.facts = {.name = "widedeep",
                 .description = "a wide linear part with crossed fields beside deep layers, on a "
                                "table with two classes: your own, Adult, Criteo or MovieLens",
                 .defaults = {.batch = 256,
                              .epochs = 4,
                              .least_steps = 100,
                              .optimizer = "adam",
                              .rate = 1e-3}},
       .options = recommender_options,
       .make_model = [](const KeyedShape& shape,
                        const std::vector<std::string>& fields) -> std::shared_ptr<Model> {
         return std::make_shared<WideDeep>(shape, crosses_for(fields));
       }});
}

}  // namespace tally::recipes
