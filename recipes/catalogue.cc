#include "recipes/catalogue.h"

#include <algorithm>

namespace tally::recipes {

Task task_of_targets(const data::Preprocessing& samples) {
  return samples.shape.target_type == DataType::kInt64 ? Task::kClassification : Task::kRegression;
}

std::int64_t inputs_of(const data::Preprocessing& samples) {
  return static_cast<std::int64_t>(data::input_bytes(samples.shape) / sizeof(float));
}

std::int64_t outputs_for(const data::Preprocessing& samples) {
  if (task_of_targets(samples) == Task::kRegression) return 1;
  return static_cast<std::int64_t>(std::max<std::size_t>(samples.classes.size(), 2));
}

std::vector<std::unique_ptr<Recipe>> all_recipes() {
  std::vector<std::unique_ptr<Recipe>> recipes;
  for (auto* const make : {make_linear, make_mlp, make_lenet, make_resnet18, make_resnet50,
                           make_gpt, make_logistic, make_widedeep, make_deepfm})
    recipes.push_back(make());
  return recipes;
}

}  // namespace tally::recipes
