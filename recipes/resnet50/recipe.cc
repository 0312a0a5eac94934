#include "recipes/resnet/recipe.h"
#include "recipes/catalogue.h"

namespace tally::recipes {

std::unique_ptr<Recipe> make_resnet50() {
  return make_resnet(
      {.name = "resnet50",
       .description = "residual network of 50 layers, 23.5 to 25.6 million parameters, on images; "
                      "for a GPU",
       .shape = resnet50,
       .defaults = {.data = "cifar10",
                    .batch = 64,
                    .epochs = 90,
                    .optimizer = "nesterov:decay=5e-4",
                    .rate = 0.1,
                    .schedule = "cosine",
                    .warmup = 400},
       .folder_size = 224});
}

}  // namespace tally::recipes
