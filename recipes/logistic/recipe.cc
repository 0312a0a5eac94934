#include "recipes/logistic/model.h"

#include "recipes/catalogue.h"

namespace tally::recipes {

Logistic::Logistic(const KeyedShape& shape)
    : l2_(shape.l2),
      linear_(register_module("linear", make_embedding(1, shape.rows, 0))),
      bias_(register_parameter("bias", at::zeros({1}))) {}

at::Tensor Logistic::forward_batch(const KeyedBatch& batch) {
  return linear_part(linear_, batch, l2_) + bias_;
}

std::unique_ptr<Recipe> make_logistic() {
  return make_keyed_recipe(
      {.facts = {.name = "logistic",
                 .description =
                     "sparse logistic regression on a libsvm file or a table with two classes",
                 .defaults = {.batch = 256,
                              .epochs = 10,
                              .least_steps = 200,
                              .optimizer = "adagrad",
                              .rate = 0.1}},
       .needs_fields = false,
       .shape = {.rows = 1 << 18},
       .options = [](KeyedShape& shape) -> std::vector<RecipeOption> {
         return {{"l2", "Each sample pulls the weights it uses towards zero, so strongly",
                  &shape.l2, 0, 1e6},
                 {"rows", "Weights; keys above are hashed onto them", &shape.rows, 1, 1e9}};
       },
       .make_model = [](const KeyedShape& shape, const std::vector<std::string>& /*fields*/)
           -> std::shared_ptr<Model> { return std::make_shared<Logistic>(shape); }});
}

}  // namespace tally::recipes
