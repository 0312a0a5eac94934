#pragma once
#include <map>
#include <string>
#include <string_view>

#include "data/preprocessing.h"
#include "recipes/recipe.h"
#include "tally/error.h"

namespace tally::app {

// The description of the model in a checkpoint of `tally train`: enough to make the model again and
// to prepare inputs for it, without the training data.
struct ModelState {
  std::string recipe;
  std::map<std::string, double> options;  // of the recipe, by name
  data::Preprocessing preprocessing;
};

// The options of a recipe and their values.
std::map<std::string, double> values_of(recipes::Recipe& recipe);
// Sets the options. kCorrupt for an option that the recipe does not have, or a value out of range.
Result<void> set_values(recipes::Recipe& recipe, const std::map<std::string, double>& values);

// Adds the state to `state`, the JSON object of a checkpoint as text.
Result<std::string> with_model_state(std::string_view state, const ModelState& model);
// Reads the state from such a text. kCorrupt with the field that is missing or wrong.
Result<ModelState> model_state_of(std::string_view text);

}  // namespace tally::app
