#pragma once
#include <torch/torch.h>

#include "apps/train/preparation.h"
#include "recipes/model.h"
#include "tally/job.h"
#include "tally/torch.h"

namespace tally::app {

// This worker's place among those that evaluate together.
struct EvaluatorPlace {
  int place = 0;
  int workers = 1;
};

// Returns loss and accuracy, for binary classification the AUC, and for a regression the RMSE, over
// the whole test part: each worker evaluates its part of the samples, every sample once, and the
// results are summed. The same on all ranks. Collective; throws Failure and c10::Error. Leaves the
// model in training mode.
Score evaluate(const EvaluatorPlace& here, Trainer& trainer, recipes::Model& model,
               const Preparation& prepared, const TrainOptions& options, const at::Device& device);

// The same in one process, for a model in evaluation mode, over a whole dataset.
Score evaluate_alone(recipes::Model& model, const data::Dataset& dataset, recipes::Task task,
                     std::uint64_t batch, const at::Device& device);

}  // namespace tally::app
