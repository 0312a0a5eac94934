#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "apps/train/use/trained_model.h"
#include "data/dataset.h"

namespace tally::app {

// The answer of a model to one input.
struct Prediction {
  // Classification: the best classes, most probable first.
  struct Class {
    std::string name;
    double probability = 0;
  };
  std::vector<Class> classes;
  double value = 0;  // regression
};

struct PredictOptions {
  std::uint64_t batch = 64;
  std::size_t top = 1;  // classes per prediction
  int loader_threads = 1;
};

// Calls `take` with the prediction of each sample of `inputs`, in their order. Throws c10::Error.
Result<void> predict(const TrainedModel& trained, const data::Dataset& inputs,
                     const PredictOptions& options, const at::Device& device,
                     const std::function<void(const Prediction&)>& take);

// The probabilities of all classes, [samples, classes]; for regression the values, [samples], in
// the scale of the data.
at::Tensor answers_of(const TrainedModel& trained, const at::Tensor& output);

}  // namespace tally::app
