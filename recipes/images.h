#pragma once
#include <cstdint>
#include <memory>

#include "recipes/model.h"
#include "recipes/recipe.h"

namespace tally::recipes {

// Square images of a dataset.
struct ImageShape {
  std::int64_t channels = 1;
  std::int64_t size = 28;
  std::int64_t classes = 10;
};

// The differences between recipes on labelled square images.
struct ImageKind {
  RecipeFacts facts;
  // The sizes that the model accepts.
  std::int64_t least = 1;
  std::int64_t most = 4096;
  bool even_size = false;         // odd sizes are refused
  bool augment = false;           // training images are shifted and mirrored
  std::int64_t folder_size = 32;  // to which the pictures of a folder are cut
  std::shared_ptr<Model> (*make_model)(const ImageShape& shape) = nullptr;
};
std::unique_ptr<Recipe> make_image_recipe(const ImageKind& kind);

}  // namespace tally::recipes
