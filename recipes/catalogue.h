#pragma once
#include <memory>
#include <vector>

#include "recipes/recipe.h"

namespace tally::recipes {

std::unique_ptr<Recipe> make_linear();
std::unique_ptr<Recipe> make_mlp();
std::unique_ptr<Recipe> make_lenet();
std::unique_ptr<Recipe> make_resnet18();
std::unique_ptr<Recipe> make_resnet50();
std::unique_ptr<Recipe> make_gpt();
std::unique_ptr<Recipe> make_logistic();
std::unique_ptr<Recipe> make_widedeep();
std::unique_ptr<Recipe> make_deepfm();

// Returns all recipes in the order of the list.
std::vector<std::unique_ptr<Recipe>> all_recipes();

}  // namespace tally::recipes
