#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recipes/mlp/model.h"
#include "recipes/model.h"
#include "recipes/recipe.h"
#include "tally/sparse.h"

// Shared by recipes on tables of keys (src/data/keyed.h).
namespace tally::recipes {

// Shape of models on keys: one table of weights; in recommenders also one of vectors, and layers on
// the vectors.
struct KeyedShape {
  std::int64_t slots = 0;
  std::int64_t rows = 1 << 16;
  std::int64_t embedding = 16;
  std::int64_t hidden = 400;
  std::int64_t layers = 3;
  double dropout = 0.3;
  double l2 = 0;  // of the rows of all tables
};

// The differences between recipes on samples of keys with a label 0 or 1.
struct KeyedKind {
  RecipeFacts facts;
  bool needs_fields = true;  // takes tables only, no sparse vectors
  KeyedShape shape = {};
  std::vector<RecipeOption> (*options)(KeyedShape& shape);
  // `shape` has the slots of the dataset; `fields` are their names, none for sparse vectors.
  std::shared_ptr<Model> (*make_model)(const KeyedShape& shape,
                                       const std::vector<std::string>& fields);
};
std::unique_ptr<Recipe> make_keyed_recipe(const KeyedKind& kind);
// Returns the options of models with a Tower.
std::vector<RecipeOption> recommender_options(KeyedShape& shape);

// Samples as a model takes them, [samples, slots] each.
struct KeyedBatch {
  at::Tensor keys;
  at::Tensor values;  // float64
};
// Throws c10::Error unless the input is int64 [samples, 2, slots].
KeyedBatch keyed_batch(const at::Tensor& input);

// A model on samples of keys.
class KeyedModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) final { return forward_batch(keyed_batch(input)); }
  // Logits [samples].
  virtual at::Tensor forward_batch(const KeyedBatch& batch) = 0;
};

// Makes an embedding initialised by torch's random numbers; with scale 0 it is zero.
SparseEmbedding make_embedding(std::int64_t dimension, std::int64_t rows, double scale);

// Returns `rows` [samples, ...] unchanged, with the gradient of a loss that has an additional l2 /
// 2 times the sum of their squares per sample. So each sample decays only the rows that it uses.
at::Tensor shrinking(const at::Tensor& rows, double l2);

// Returns the weights of the keys times their values, summed over the slots: [samples]. The weights
// decay as in shrinking().
at::Tensor linear_part(SparseEmbedding& weights, const KeyedBatch& batch, double l2);

// The common part of recommenders: a weight and a vector per key, layers on all vectors of a
// sample, a bias. Its modules belong to the model, as `weights_name`, `embedding`, `deep` and
// `bias`. Threads: those of the model.
class Tower final {
 public:
  // Initial weights are zero; initial vectors are normal values times `initial_scale`.
  Tower(torch::nn::Module& model, const std::string& weights_name, const KeyedShape& shape,
        double initial_scale);

  at::Tensor linear(const KeyedBatch& batch) { return linear_part(weights_, batch, l2_); }
  // Returns the vectors of all slots times their values: [samples, slots, dimension].
  at::Tensor vectors(const KeyedBatch& batch);
  // Returns the output of the layers for vectors(): [samples].
  at::Tensor deep(const at::Tensor& vectors) { return deep_->forward(vectors).squeeze(-1); }
  const at::Tensor& bias() const { return bias_; }

 private:
  const double l2_;
  SparseEmbedding weights_;
  SparseEmbedding embedding_;
  std::shared_ptr<Mlp> deep_;
  at::Tensor bias_;
};

}  // namespace tally::recipes
