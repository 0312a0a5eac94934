#include "apps/train/evaluation.h"

#include "apps/train/batches.h"
#include "data/order.h"
#include "train/loader.h"

namespace tally::app {
namespace {

recipes::Judgement judge_part(Job& job, recipes::Model& model, const data::Dataset& dataset,
                              const EvaluationOptions& options) {
  const torch::NoGradGuard no_gradients;
  train::Loader loader(dataset,
                       data::Order({.strategy = data::Strategy::kPartition,
                                    .size = dataset.size(),
                                    .batch = options.batch,
                                    .shuffle = false,
                                    .rank = job.rank(),
                                    .workers = job.size()}),
                       {.threads = options.loader_threads});
  recipes::Judgement all;
  for (bool last = false; !last;) {
    auto batch = loader.next();
    if (!batch) throw Failure(std::move(batch).error());
    last = batch->last_of_epoch;
    if (batch->samples == 0) continue;
    const TensorBatch tensors = to_tensors(*batch, dataset.shape(), options.device);
    at::Tensor output;
    {
      const Bfloat16Scope precision(options.bfloat16, options.device);
      output = model.forward(tensors.input);
    }
    const recipes::Judgement judgement = recipes::judge(options.task, output, tensors.target);
    all.loss += judgement.loss;
    all.correct += judgement.correct;
    all.predictions += judgement.predictions;
  }
  return all;
}

}  // namespace

Score evaluate(Job& job, Trainer& trainer, recipes::Model& model, const data::Dataset& dataset,
               const EvaluationOptions& options) {
  trainer.synchronise_buffers();
  model.eval();
  const recipes::Judgement own = judge_part(job, model, dataset, options);
  model.train();
  const std::vector<double> sums = trainer.sum({own.loss, own.correct, own.predictions});
  Score score{.loss = sums[0] / sums[2]};
  if (recipes::has_accuracy(options.task)) score.accuracy = sums[1] / sums[2];
  return score;
}

}  // namespace tally::app
