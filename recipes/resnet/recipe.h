#pragma once
#include <cstdint>
#include <string>

#include "recipes/recipe.h"
#include "recipes/resnet/model.h"

namespace tally::recipes {

// What one residual network differs in from another.
struct ResNetKind {
  std::string name;
  std::string description;
  ResNetShape (*shape)(std::int64_t channels, std::int64_t size, std::int64_t classes);
  Defaults defaults;
  std::int64_t folder_size = 224;  // to which the pictures of a folder are cut
};

std::unique_ptr<Recipe> make_resnet(const ResNetKind& kind);

}  // namespace tally::recipes
