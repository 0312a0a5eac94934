#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <torch/torch.h>

#include "apps/train/model_state.h"
#include "apps/train/train_state.h"
#include "recipes/model.h"
#include "recipes/recipe.h"
#include "tally/error.h"

namespace tally::app {

// The model of a checkpoint, in evaluation mode and without gradients.
struct TrainedModel {
  std::filesystem::path checkpoint;
  std::uint64_t step = 0;
  TrainState training;
  ModelState state;
  std::unique_ptr<recipes::Recipe> recipe;
  std::shared_ptr<recipes::Model> model;
  recipes::Task task = recipes::Task::kClassification;
};

// Loads the model of RUN: a folder of `tally train --checkpoint`, of which the newest checkpoint is
// taken, or one of its checkpoints. Errors name the path and the remedy.
Result<TrainedModel> load_model(const std::filesystem::path& run, const at::Device& device);

// Returns the device of --device: auto, cpu or cuda.
Result<at::Device> device_for(const std::string& name);

// Runs a command that uses libtorch. Returns its exit code; an exception becomes a message of one
// line and 1.
int guarded(const std::string& command, const std::function<Result<void>()>& run);

}  // namespace tally::app
