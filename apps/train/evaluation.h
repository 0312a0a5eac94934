#pragma once
#include <torch/torch.h>

#include "apps/train/loop_control.h"
#include "data/dataset.h"
#include "recipes/model.h"
#include "recipes/task.h"
#include "tally/job.h"
#include "tally/torch.h"

namespace tally::app {

struct EvaluationOptions {
  recipes::Task task = recipes::Task::kClassification;
  std::uint64_t batch = 64;
  int loader_threads = 1;
  bool bfloat16 = false;
  at::Device device = at::kCPU;
};

// Returns loss and accuracy, and for binary classification the AUC, over a whole dataset: each rank
// evaluates its part of the samples, every sample once, and the results are summed. The same on all
// ranks. Collective; throws Failure and c10::Error. Leaves the model in training mode.
Score evaluate(Job& job, Trainer& trainer, recipes::Model& model, const data::Dataset& dataset,
               const EvaluationOptions& options);

}  // namespace tally::app
