#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "bench/train/model_facts.h"
#include "bench/train/models.h"
#include "tally/error.h"

namespace tally::bench::train {

// The batches of one rank.
struct Batches {
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;
};

// A problem of write_problem() for one rank: the model with its initial parameters, and its
// batches, all on `device` and as `computation` lays them out.
struct Problem {
  ModelFacts facts;
  int ranks = 1;
  Computation computation;
  at::Device device = at::kCPU;
  std::shared_ptr<BenchModel> model;

  static Result<Problem> open(const std::filesystem::path& folder, const Computation& computation,
                              const at::Device& device);
  Result<Batches> batches_of(Rank rank) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace tally::bench::train
