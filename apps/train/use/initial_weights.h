#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "data/preprocessing.h"
#include "plan/plan.h"
#include "recipes/recipe.h"
#include "tally/error.h"

namespace torch::nn {
class Module;
}
namespace tally {
class Trainer;
}

// The weights of --init: a safetensors file of any program, a folder of `tally train --checkpoint`,
// of which the newest checkpoint is taken, or one of its checkpoints.
namespace tally::app {

struct InitialWeights {
  // Names the loaded tensors and tables, and all that only one of the two has.
  std::string text;
  // Sets the rows of sparse tables on servers; empty: there are none. Every rank calls it when its
  // trainer is made. Throws Failure.
  std::function<void(Trainer&)> assign_rows;
};

// Copies the weights to the tensors of the same names. kInvalid if no name fits, if a tensor has
// another shape, or if the rows of a sparse table cannot be moved to the training's home: servers
// have rows by key, and a group has tables of a fixed size.
Result<InitialWeights> load_initial_weights(const std::filesystem::path& from,
                                            torch::nn::Module& module, plan::Home home);

// The same for a model that the recipe makes, only to know whether it works.
Result<void> check_initial_weights(const std::filesystem::path& from, const recipes::Recipe& recipe,
                                   const data::Preprocessing& samples, plan::Home home);

// The checkpoint folder that RUN means: itself, or the newest in it. kSystem if it does not exist.
Result<std::filesystem::path> checkpoint_in(const std::filesystem::path& run);

}  // namespace tally::app
