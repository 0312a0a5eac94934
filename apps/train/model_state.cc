#include "apps/train/model_state.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include <nlohmann/json.hpp>

#include "apps/train/preprocessing_json.h"
#include "base/errors.h"

namespace tally::app {
namespace {

using nlohmann::json;

constexpr const char* kModelKey = "model";

}  // namespace

std::map<std::string, double> values_of(recipes::Recipe& recipe) {
  std::map<std::string, double> values;
  for (const recipes::RecipeOption& option : recipe.options())
    std::visit([&](auto* value) { values[option.name] = static_cast<double>(*value); },
               option.value);
  return values;
}

Result<void> set_values(recipes::Recipe& recipe, const std::map<std::string, double>& values) {
  const std::vector<recipes::RecipeOption> options = recipe.options();
  for (const auto& entry : values) {
    const std::string& name = entry.first;
    const double value = entry.second;
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&name](const auto& option) { return option.name == name; });
    if (found == options.end())
      return corrupt("the checkpoint has an option {} that {} does not have", name, recipe.name());
    if (!(value >= found->least && value <= found->most))
      return corrupt("the checkpoint has {} {}: expected {} to {}", name, value, found->least,
                     found->most);
    if (auto* const whole = std::get_if<std::int64_t*>(&found->value))
      **whole = static_cast<std::int64_t>(value);
    else
      *std::get<double*>(found->value) = value;
  }
  return recipe.check_options();
}

Result<std::string> with_model_state(std::string_view state, const ModelState& model) {
  json whole = json::parse(state, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) return corrupt("the state of the checkpoint is not a JSON object");
  whole[kModelKey] = {{"recipe", model.recipe},
                      {"options", model.options},
                      {"preprocessing", preprocessing_json(model.preprocessing)}};
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ModelState> model_state_of(std::string_view text) {
  const json whole = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole.contains(kModelKey))
    return corrupt(
        "the checkpoint does not say how to use its model: it was not written by `tally train`, or "
        "by an earlier version; continue the training for a step to write another");
  ModelState model;
  try {
    const json& object = whole.at(kModelKey);
    model.recipe = object.at("recipe").get<std::string>();
    model.options = object.at("options").get<std::map<std::string, double>>();
    TALLY_TRY(model.preprocessing, preprocessing_of(object.at("preprocessing")));
  } catch (const json::exception& error) {
    return corrupt("the model of the checkpoint: {}", error.what());
  }
  return model;
}

}  // namespace tally::app
