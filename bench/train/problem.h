#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "bench/train/model_facts.h"
#include "bench/train/models.h"
#include "tally/error.h"

namespace tally::bench::train {

// One rank's batches.
struct Batches {
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;
};

// What write_problem() wrote, as one rank sees it: the model with its initial parameters, and its
// batches.
struct Problem {
  ModelFacts facts;
  int ranks = 1;
  std::shared_ptr<BenchModel> model;

  static Result<Problem> open(const std::filesystem::path& folder);
  Result<Batches> batches_of(Rank rank) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tally::bench::train
