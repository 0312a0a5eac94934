#include "recipes/resnet/recipe.h"
#include "recipes/catalogue.h"

namespace tally::recipes {

std::unique_ptr<Recipe> make_resnet18() {
  return make_resnet({.name = "resnet18",
                      .description =
                          "residual network of 18 layers, 11.2 million parameters, on images; "
                          "for a GPU",
                      .shape = resnet18,
                      .defaults = {.data = "cifar10",
                                   .batch = 128,
                                   .epochs = 30,
                                   .optimizer = "nesterov:decay=5e-4",
                                   .rate = 0.1,
                                   .schedule = "cosine",
                                   .warmup = 400},
                      .folder_size = 224});
}

}  // namespace tally::recipes
