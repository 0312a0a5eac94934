#pragma once
#include <filesystem>
#include <string>

#include "data/preprocessing.h"
#include "recipes/recipe.h"
#include "tally/error.h"

namespace torch::nn {
class Module;
}

// The weights of --init: a safetensors file of any program, a folder of `tally train --checkpoint`,
// of which the newest checkpoint is taken, or one of its checkpoints.
namespace tally::app {

// Copies the weights to the tensors of the same names, and returns a text about it, with the names
// of all tensors that only one of the two has. kInvalid if no name fits, or if a tensor has another
// shape.
Result<std::string> load_initial_weights(const std::filesystem::path& from,
                                         torch::nn::Module& module);

// The same for a model that the recipe makes, only to know whether it works.
Result<void> check_initial_weights(const std::filesystem::path& from, const recipes::Recipe& recipe,
                                   const data::Preprocessing& samples);

// The checkpoint folder that RUN means: itself, or the newest in it. kSystem if it does not exist.
Result<std::filesystem::path> checkpoint_in(const std::filesystem::path& run);

}  // namespace tally::app
