#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "apps/train/model_state.h"
#include "apps/train/train_state.h"
#include "recipes/model.h"
#include "recipes/recipe.h"
#include "server/snapshot/saved_rows.h"
#include "tally/error.h"
#include "tally/sparse.h"

namespace tally::app {

// The rows of a sparse table that was trained on servers.
class TrainedRows final : public SparseEmbeddingImpl::Rows {
 public:
  TrainedRows(std::string name, std::unique_ptr<server::SavedRows> saved)
      : name_(std::move(name)), saved_(std::move(saved)) {}

  void pull(std::span<const std::uint64_t> keys, std::span<float> rows) override {
    saved_->look_up(keys, rows);
  }
  const std::string& name() const { return name_; }  // of its module
  const server::SavedRows& saved() const { return *saved_; }

 private:
  const std::string name_;
  const std::unique_ptr<server::SavedRows> saved_;
};

// The model of a checkpoint, in evaluation mode and without gradients.
struct TrainedModel {
  std::filesystem::path checkpoint;
  std::uint64_t step = 0;
  TrainState training;
  ModelState state;
  std::unique_ptr<recipes::Recipe> recipe;
  std::vector<std::unique_ptr<TrainedRows>> rows;  // that `model` reads; empty with home=group
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
