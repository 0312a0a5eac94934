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

// The model's loss and accuracy, and of answers yes or no the AUC, over a whole dataset: each rank
// judges its part of the samples, every sample once, and what they found is summed. The same on all
// ranks. Collective; throws Failure and c10::Error. The model is left as training.
Score evaluate(Job& job, Trainer& trainer, recipes::Model& model, const data::Dataset& dataset,
               const EvaluationOptions& options);

}  // namespace tally::app
