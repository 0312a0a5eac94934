#pragma once
#include <cstdint>
#include <string>

#include "recipes/recipe.h"

namespace tally::recipes {

// The images that a model accepts. Sizes are those of square images.
struct ImageNeeds {
  std::int64_t least = 1;
  std::int64_t most = 4096;
  bool augment = false;  // training images are shifted and mirrored
};

struct ImageFacts {
  std::int64_t channels = 1;
  std::int64_t size = 28;
  std::int64_t classes = 10;
};

// kInvalid, with what `recipe` accepts, unless the samples are labelled square images of such a
// size.
Result<void> accepts_images(const std::string& recipe, const ImageNeeds& needs,
                            const data::Dataset& dataset);
// For an accepted dataset.
ImageFacts image_facts(const data::Dataset& dataset);

// Opens images as they are stored; the pictures of a folder are read as colour images of
// `folder_size`.
Result<std::unique_ptr<data::Dataset>> open_images(const DataRequest& request,
                                                   const ImageNeeds& needs,
                                                   std::int64_t folder_size);

}  // namespace tally::recipes
