#include "apps/train/use/prediction.h"

#include <algorithm>

#include "apps/train/batches.h"
#include "data/order.h"
#include "train/loader.h"

namespace tally::app {

at::Tensor answers_of(const TrainedModel& trained, const at::Tensor& output) {
  switch (trained.task) {
    case recipes::Task::kRegression: {
      const data::TargetScale& scale = trained.state.preprocessing.target_scale;
      return output.reshape({-1}).to(at::kDouble) * scale.deviation + scale.mean;
    }
    case recipes::Task::kBinary: {
      const at::Tensor second = torch::sigmoid(output.reshape({-1}));
      return torch::stack({1 - second, second}, 1);
    }
    default:
      return torch::softmax(output, -1);
  }
}

namespace {

Prediction prediction_of(const at::Tensor& answer, const std::vector<std::string>& classes,
                         std::size_t top) {
  if (answer.dim() == 0) return {.classes = {}, .value = answer.item<double>()};
  Prediction prediction;
  const auto [probabilities, labels] =
      answer.topk(std::min<std::int64_t>(static_cast<std::int64_t>(top), answer.numel()));
  for (std::int64_t i = 0; i < labels.numel(); ++i)
    prediction.classes.push_back(
        {classes.at(static_cast<std::size_t>(labels[i].item<std::int64_t>())),
         probabilities[i].item<double>()});
  return prediction;
}

}  // namespace

Result<void> predict(const TrainedModel& trained, const data::Dataset& inputs,
                     const PredictOptions& options, const at::Device& device,
                     const std::function<void(const Prediction&)>& take) {
  train::Loader loader(
      inputs,
      data::Order(
          {.strategy = data::Strategy::kStream, .size = inputs.size(), .batch = options.batch}),
      {.threads = options.loader_threads});
  const std::vector<std::string>& classes = trained.state.preprocessing.classes;
  for (bool last = false; !last;) {
    TALLY_TRY(const train::Batch batch, loader.next());
    last = batch.last_of_epoch;
    if (batch.samples == 0) continue;
    const TensorBatch tensors = to_tensors(batch, inputs.shape(), device);
    const at::Tensor answers =
        answers_of(trained, trained.model->forward(tensors.input)).to(at::kCPU, at::kDouble);
    for (std::int64_t i = 0; i < answers.size(0); ++i)
      take(prediction_of(answers[i], classes, options.top));
  }
  return {};
}

}  // namespace tally::app
