#pragma once
#include <cstdint>

#include "recipes/keyed.h"

namespace tally::recipes {

// Shape of models on tables of categories: one table of weights, one of vectors, layers on the
// vectors.
struct RecommenderShape {
  std::int64_t slots = 0;
  std::int64_t rows = 1 << 16;
  std::int64_t embedding = 16;
  std::int64_t hidden = 400;
  std::int64_t layers = 3;
  double dropout = 0.3;
  double l2 = 0;  // of the rows of both tables
};

// The common part of such models: a vector per key, layers on all vectors of a sample, a bias. Its
// modules belong to the model, as `embedding`, `deep` and `bias`. Threads: those of the model.
class Tower final {
 public:
  // Initial vectors are normal values times `initial_scale`.
  Tower(torch::nn::Module& model, const RecommenderShape& shape, double initial_scale);

  // Returns the vectors of all slots times their values: [samples, slots, dimension].
  at::Tensor vectors(const KeyedBatch& batch);
  // Returns the output of the layers for vectors(): [samples].
  at::Tensor deep(const at::Tensor& vectors) { return deep_->forward(vectors.flatten(1)); }
  const at::Tensor& bias() const { return bias_; }

 private:
  const double l2_;
  SparseEmbedding embedding_;
  DeepPart deep_;
  at::Tensor bias_;
};

}  // namespace tally::recipes
