#pragma once
#include <memory>
#include <string>

#include "recipes/model.h"
#include "recipes/recipe.h"
#include "recipes/recommender/tower.h"

namespace tally::recipes {

// The differences between recipes on tables of categories.
struct RecommenderKind {
  std::string name;
  std::string description;
  Defaults defaults;
  // `shape` has the slots of the dataset.
  std::shared_ptr<Model> (*make_model)(const RecommenderShape& shape, const data::Dataset& dataset);
};

std::unique_ptr<Recipe> make_recommender(const RecommenderKind& kind);

}  // namespace tally::recipes
