#include "recipes/catalogue.h"

namespace tally::recipes {

std::vector<std::unique_ptr<Recipe>> all_recipes() {
  std::vector<std::unique_ptr<Recipe>> recipes;
  for (auto* const make : {make_linear, make_mlp, make_lenet, make_resnet18, make_resnet50,
                           make_gpt, make_logistic, make_widedeep, make_deepfm})
    recipes.push_back(make());
  return recipes;
}

}  // namespace tally::recipes
